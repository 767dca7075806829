/* A broker that stores nothing, so that a benchmark's brokers are not the limit.
 *
 * It stands before a real broker, passes every request on, and answers three itself for topics whose names begin
 * with a prefix: pulls at the source (from one message that it has made, as often as there should be messages),
 * batches at the target (it counts their messages), and questions for the end of a queue at either side. Pulls are
 * held until SIGUSR1 opens the source. One thread, epoll; no TLS; headers in JSON, as this project writes them.
 *
 *   null_broker PREFIX MESSAGES-A-QUEUE BODY-BYTES source|target LISTEN-HOST:PORT=UPSTREAM-HOST:PORT ...
 *
 * It prints "ready", at the source "held QUEUES CONNECTIONS" whenever that changes, and at the target every tenth
 * of a second in which something came "stored MESSAGES SECONDS", by the monotonic clock.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { QUEUES = 1024, PULL = 32, HELD = 65536, ROOM = 1 << 20, MOST_HEADER = 1 << 16 };
enum { PULL_MESSAGE = 11, GET_MAX_OFFSET = 30, SEND_BATCH = 320, FOUND = 0, NOT_FOUND = 19 };
static const double HOLD_SECONDS = 15, TELL_SECONDS = 0.1;

struct bytes { char *at; size_t size, room; };
struct line { int fd, listening; size_t sent; struct bytes in, out; struct line *peer; struct sockaddr_in upstream; };
struct pull { struct line *line; int opaque, queue; int64_t offset; double until; };

static const char *prefix;
static int64_t messages, end_of[QUEUES], stored, told;
static int is_source, is_open, poll_fd, held_count;
static struct pull held[HELD];
static struct bytes canned; /* PULL messages as a broker stores them, each `canned_each` bytes */
static size_t canned_each;

static void die(const char *what) { perror(what); exit(1); }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static char *more(struct bytes *b, size_t size) {
    if (b->size + size > b->room) {
        b->room = (b->size + size) * 2;
        if (!(b->at = realloc(b->at, b->room))) die("memory");
    }
    b->size += size;
    return b->at + b->size - size;
}

static void put(struct bytes *b, const void *data, size_t size) { memcpy(more(b, size), data, size); }
static void put32(char *at, uint32_t v) { v = htonl(v); memcpy(at, &v, 4); }
static void put64(char *at, uint64_t v) { put32(at, v >> 32); put32(at + 4, (uint32_t)v); }
static uint32_t get32(const char *at) { uint32_t v; memcpy(&v, at, 4); return ntohl(v); }

static uint32_t crc32_of(const char *data, size_t size) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; i++) {
        crc ^= (unsigned char)data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

/* The messages of an answer; queue and offsets are written into them for each. */
static void make_canned(size_t size) {
    static const char topic[] = "null", properties[] = "KEYS\x01k\x02UNIQ_KEY\x01" "00000000000000000000000000000000";
    size_t own = sizeof topic - 1, of_properties = sizeof properties - 1;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t ms = (uint64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    canned_each = 84 + 4 + size + 1 + own + 2 + of_properties;
    for (int i = 0; i < PULL; i++) {
        char *at = more(&canned, canned_each), *body = at + 88;
        memset(at, 0, canned_each);
        put32(at, canned_each);
        put32(at + 4, 0xDAA320A7);
        memset(body, '.', size);
        put32(at + 8, crc32_of(body, size) & 0x7FFFFFFF);
        put64(at + 40, ms);
        memcpy(at + 48, "\x7f\0\0\1\0\0\x2a\x9f", 8);
        put64(at + 56, ms);
        memcpy(at + 64, "\x7f\0\0\1\0\0\x2a\x9f", 8);
        put32(at + 84, size);
        body[size] = own;
        memcpy(body + size + 1, topic, own);
        body[size + 1 + own] = of_properties >> 8;
        body[size + 2 + own] = of_properties & 255;
        memcpy(body + size + 3 + own, properties, of_properties);
    }
}

/* The value of "name": in a header, as text or as number; NULL where there is none. */
static const char *value(const char *header, size_t size, const char *name) {
    char wanted[40];
    size_t length = snprintf(wanted, sizeof wanted, "\"%s\":", name);
    const char *at = memmem(header, size, wanted, length);
    return at ? at + length + (at[length] == '"') : NULL;
}

static int64_t number(const char *header, size_t size, const char *name) {
    const char *at = value(header, size, name);
    return at ? strtoll(at, NULL, 10) : -1;
}

static void watch(struct line *line) {
    struct epoll_event event = {.events = EPOLLIN | (line->out.size > line->sent ? EPOLLOUT : 0), .data.ptr = line};
    epoll_ctl(poll_fd, EPOLL_CTL_MOD, line->fd, &event);
}

static void answer(struct line *line, int code, int opaque, const char *fields, size_t body) {
    char header[512];
    int size = snprintf(header, sizeof header,
        "{\"code\":%d,\"extFields\":{%s},\"flag\":1,\"language\":\"JAVA\",\"opaque\":%d,"
        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":399}", code, fields, opaque);
    char *at = more(&line->out, 8);
    put32(at, 4 + size + body);
    put32(at + 4, size);
    put(&line->out, header, size);
}

static void answer_pull(struct line *line, int opaque, int queue, int64_t offset) {
    int64_t end = is_open ? messages : 0, count = end - offset < PULL ? end - offset : PULL;
    char fields[256];
    if (count < 0) count = 0;
    snprintf(fields, sizeof fields, "\"suggestWhichBrokerId\":\"0\",\"nextBeginOffset\":\"%lld\",\"minOffset\":\"0\","
        "\"maxOffset\":\"%lld\"", (long long)(offset + count), (long long)end);
    answer(line, count ? FOUND : NOT_FOUND, opaque, fields, count * canned_each);
    char *body = more(&line->out, count * canned_each);
    memcpy(body, canned.at, count * canned_each);
    for (int i = 0; i < count; i++, body += canned_each) {
        put32(body + 12, queue);
        put64(body + 20, offset + i);
        put64(body + 28, (offset + i) * canned_each);
    }
}

static void tell_held(void) {
    static int before_queues = -1, before_lines = -1;
    static char seen[QUEUES];
    int queues = 0, lines = 0;
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < held_count; i++) {
        int known = 0;
        for (int j = 0; j < i && !known; j++) known = held[j].line == held[i].line;
        lines += !known;
        queues += !seen[held[i].queue];
        seen[held[i].queue] = 1;
    }
    if (queues != before_queues || lines != before_lines) printf("held %d %d\n", queues, lines);
    before_queues = queues, before_lines = lines;
}

static void release(int all) {
    double at = now();
    int kept = 0;
    for (int i = 0; i < held_count; i++) {
        if (!all && held[i].until > at) { held[kept++] = held[i]; continue; }
        answer_pull(held[i].line, held[i].opaque, held[i].queue, held[i].offset);
        watch(held[i].line);
    }
    held_count = kept;
}

/* Whether a request was answered here; else it is the broker's. */
static int taken(struct line *line, const char *header, size_t size, const char *body, size_t of_body) {
    int64_t code = number(header, size, "code"), opaque = number(header, size, "opaque");
    const char *topic = value(header, size, code == SEND_BATCH ? "b" : "topic");
    int64_t queue = number(header, size, code == SEND_BATCH ? "e" : "queueId");
    char fields[128];
    if (!topic || strncmp(topic, prefix, strlen(prefix)) || queue < 0 || queue >= QUEUES) return 0;
    if (code == GET_MAX_OFFSET) {
        int64_t end = !is_source ? end_of[queue] : is_open ? messages : 0;
        snprintf(fields, sizeof fields, "\"offset\":\"%lld\"", (long long)end);
        answer(line, 0, opaque, fields, 0);
        return 1;
    }
    if (code == PULL_MESSAGE && is_source) {
        int64_t offset = number(header, size, "queueOffset");
        int waits = number(header, size, "suspendTimeoutMillis") > 0 && held_count < HELD;
        if ((is_open && offset < messages) || !waits) answer_pull(line, opaque, queue, offset);
        else held[held_count++] = (struct pull){line, opaque, queue, offset, now() + HOLD_SECONDS};
        return 1;
    }
    if (code == SEND_BATCH && !is_source) {
        int64_t first = end_of[queue];
        for (size_t at = 0; at + 4 <= of_body; at += get32(body + at)) end_of[queue]++;
        stored += end_of[queue] - first;
        snprintf(fields, sizeof fields, "\"msgId\":\"0\",\"queueId\":\"%lld\",\"queueOffset\":\"%lld\"",
            (long long)queue, (long long)first);
        answer(line, 0, opaque, fields, 0);
        return 1;
    }
    return 0;
}

static void add(struct line *line, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = line};
    int on = 1;
    line->fd = fd;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event)) die("epoll");
}

static struct sockaddr_in address(const char *text) {
    struct sockaddr_in found = {.sin_family = AF_INET};
    char host[64];
    const char *colon = strchr(text, ':');
    if (!colon || colon - text >= (long)sizeof host) { fprintf(stderr, "%s is not HOST:PORT\n", text); exit(1); }
    memcpy(host, text, colon - text);
    host[colon - text] = 0;
    found.sin_port = htons(atoi(colon + 1));
    if (inet_pton(AF_INET, host, &found.sin_addr) != 1) { fprintf(stderr, "%s is not an address\n", host); exit(1); }
    return found;
}

static void listen_at(const char *pair) {
    const char *equals = strchr(pair, '=');
    struct sockaddr_in own = address(pair);
    struct line *line = calloc(1, sizeof *line);
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (!equals || !line) die("pair");
    line->listening = 1;
    line->upstream = address(equals + 1);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&own, sizeof own) || listen(fd, 64)) die(pair);
    add(line, fd);
}

static void accept_at(struct line *listening) {
    int near_fd = accept(listening->fd, NULL, NULL), far_fd = socket(AF_INET, SOCK_STREAM, 0);
    if (near_fd < 0) return;
    if (connect(far_fd, (struct sockaddr *)&listening->upstream, sizeof listening->upstream)) {
        close(near_fd);
        close(far_fd);
        return;
    }
    struct line *near = calloc(1, sizeof *near), *far = calloc(1, sizeof *far);
    near->peer = far, far->peer = near;
    near->listening = far->listening = 0;
    add(near, near_fd);
    add(far, far_fd);
    far->sent = 0;
    far->upstream.sin_family = AF_INET; /* marks the side of the broker */
}

static void end(struct line *line) {
    struct line *both[] = {line, line->peer};
    int kept = 0;
    for (int i = 0; i < held_count; i++)
        if (held[i].line != line && held[i].line != line->peer) held[kept++] = held[i];
    held_count = kept;
    for (int i = 0; i < 2; i++) { /* the few bytes of each stay: an event of it may be at hand still */
        if (both[i]->fd >= 0) close(both[i]->fd);
        both[i]->fd = -1;
    }
}

static int flush(struct line *line) {
    while (line->sent < line->out.size) {
        ssize_t size = write(line->fd, line->out.at + line->sent, line->out.size - line->sent);
        if (size < 0) return errno == EAGAIN;
        line->sent += size;
    }
    line->sent = line->out.size = 0;
    return 1;
}

/* All whole frames that have come. */
static void sort_out(struct line *line) {
    size_t at = 0;
    int from_broker = line->upstream.sin_family == AF_INET;
    while (line->in.size - at >= 8) {
        const char *frame = line->in.at + at;
        size_t whole = 4 + (size_t)get32(frame), header = get32(frame + 4) & 0xFFFFFF;
        if (line->in.size - at < whole) break;
        int json = frame[4] == 0 && header < MOST_HEADER;
        if (from_broker || !json || !taken(line, frame + 8, header, frame + 8 + header, whole - 8 - header))
            put(&line->peer->out, frame, whole);
        at += whole;
    }
    memmove(line->in.at, line->in.at + at, line->in.size - at);
    line->in.size -= at;
}

static void serve(struct line *line, uint32_t events) {
    if (line->fd < 0) return;
    if (line->listening) { accept_at(line); return; }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        size_t before = line->in.size;
        ssize_t size = read(line->fd, more(&line->in, ROOM), ROOM);
        line->in.size = before + (size > 0 ? size : 0);
        if (size == 0 || (size < 0 && errno != EAGAIN)) { end(line); return; }
        sort_out(line);
    }
    if (!flush(line) || !flush(line->peer)) { end(line); return; }
    watch(line);
    watch(line->peer);
}

int main(int count, char **words) {
    static struct line signals;
    struct epoll_event events[64];
    sigset_t mask;
    if (count < 6) { fprintf(stderr, "see the head of null_broker.c\n"); return 1; }
    prefix = words[1], messages = atoll(words[2]), is_source = !strcmp(words[4], "source");
    make_canned(atoi(words[3]));
    setlinebuf(stdout);
    poll_fd = epoll_create1(0);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    signal(SIGPIPE, SIG_IGN);
    signals.listening = 2;
    add(&signals, signalfd(-1, &mask, SFD_NONBLOCK));
    for (int i = 5; i < count; i++) listen_at(words[i]);
    puts("ready");
    for (double next = now();;) {
        int found = epoll_wait(poll_fd, events, 64, 50);
        for (int i = 0; i < found; i++) {
            struct line *line = events[i].data.ptr;
            if (line != &signals) { serve(line, events[i].events); continue; }
            struct signalfd_siginfo told_by;
            while (read(signals.fd, &told_by, sizeof told_by) > 0) is_open = 1;
            release(1);
        }
        if (now() < next) continue;
        next = now() + TELL_SECONDS;
        if (is_source) { release(0); tell_held(); }
        if (stored != told) printf("stored %lld %.6f\n", (long long)(told = stored), now());
    }
}
