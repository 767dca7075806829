/* Stored messages for the compiled code, built with sanitizers: those in files, then random mutations.
 * Usage: uniform_run_fuzz SECONDS [FILE ...]
 *
 * Each input lies at the end of its own allocation, so that a byte read behind it is found.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef const uint8_t *bytes;

int64_t replicator_uniform_run(bytes data, size_t size, int32_t kept, void *common);
int32_t replicator_mentions(bytes data, size_t size, bytes text, size_t text_size);
int64_t replicator_sent(bytes data, size_t size, bytes names, uint8_t *out, size_t room);
int64_t replicator_entries(bytes data, size_t size, bytes stamp, size_t stamp_size, bytes names, int64_t more,
                           int64_t limit, uint8_t *out, size_t room, int64_t *stored);
int64_t replicator_records(bytes entries, size_t size, int32_t sys_flag, int32_t reconsumed, uint8_t *out, size_t room);
int64_t replicator_length(bytes data, size_t size, int64_t count);

struct columns {
    int64_t *offset, *born, *stored;
    int32_t *flag, *sys_flag, *reconsumed, *crc, *body_ends, *properties_ends;
    uint8_t *body, *properties;
};
int64_t replicator_take_apart(bytes data, size_t size, int64_t most, const struct columns *columns, int64_t done);
int64_t replicator_put_together(int64_t count, const struct columns *from, uint8_t *out, size_t room);


struct pairs {
    int32_t *before, *name_ends, *value_ends;
    uint8_t *same, *names, *values;
};
int64_t replicator_pairs(bytes data, const int32_t *ends, int64_t count, const struct pairs *to, int64_t most);

enum { MOST = 4096, ROOM = 16384 };

static uint64_t state;

static uint32_t next(uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

static size_t put(uint8_t *at, uint64_t value, int size) {
    for (int i = 0; i < size; i++) at[i] = (uint8_t)(value >> 8 * (size - 1 - i));
    return (size_t)size;
}

/* A message as brokers store it, of random sizes. */
static size_t message(uint8_t *at, uint32_t offset, int v2, int v6) {
    uint32_t body = next(60), topic = 1 + next(20), properties = next(80), more = v6 ? 12 : 0;
    uint8_t *here = at + 4;
    here += put(here, v2 ? 0xDAA320ABu : 0xDAA320A7u, 4);
    here += put(here, next(1000), 4), here += put(here, 0, 4), here += put(here, 0, 4); /* CRC, queue, flag */
    here += put(here, 0, 4), here += put(here, offset, 4);
    here += put(here, 0, 8), here += put(here, v6 ? 0x30 : 0, 4); /* physical offset, sysFlag */
    here += put(here, 0, 4), here += put(here, next(1u << 30), 4);
    here += put(here, 0, 8) + more;
    here += put(here, 0, 4), here += put(here, next(1u << 30), 4);
    here += put(here, 0, 8) + more;
    here += put(here, 0, 4), here += put(here, 0, 8);
    here += put(here, body, 4);
    for (uint32_t i = 0; i < body; i++) *here++ = (uint8_t)next(256);
    here += put(here, topic, v2 ? 2 : 1);
    for (uint32_t i = 0; i < topic; i++) *here++ = 't';
    here += put(here, properties, 2);
    for (uint32_t i = 0; i < properties; i++) *here++ = (uint8_t)(next(4) ? 'A' + next(26) : 1 + next(2));
    put(at, (uint32_t)(here - at), 4);
    return (size_t)(here - at);
}

static void *room_for(size_t size) { return malloc(size ? size : 1); }

/* Splits properties, with room for no byte more, and maybe for too few pairs. */
static void pairs_of(bytes properties, const int32_t *ends, size_t count) {
    size_t size = (size_t)ends[count], most = next(2) ? size + count : next(8);
    uint8_t *data = room_for(size);
    memcpy(data, properties, size);
    struct pairs all = {
        malloc(4 * (count + 1)), malloc(4 * (most + 1)), malloc(4 * (most + 1)), room_for(count), room_for(size), room_for(size),
    };
    replicator_pairs(data, ends, (int64_t)count, &all, (int64_t)most);
    free(all.before), free(all.name_ends), free(all.value_ends), free(all.same), free(all.names), free(all.values), free(data);
}

/* Takes `count` messages apart, with room for no byte more, and puts them together, with room for maybe too little. */
static void columns_of(bytes data, size_t size, size_t count) {
    struct columns all = {
        malloc(8 * count), malloc(8 * count), malloc(8 * count), malloc(4 * count), malloc(4 * count), malloc(4 * count),
        malloc(4 * count), calloc(count + 1, 4), calloc(count + 1, 4), malloc(size), malloc(size),
    };
    size_t room = next(2) ? size + 96 * count : next((uint32_t)size);
    uint8_t *out = malloc(room ? room : 1);
    if (replicator_take_apart(data, size, (int64_t)count - next(2), &all, 0) == (int64_t)count) {
        replicator_put_together((int64_t)count, &all, out, room);
        pairs_of(all.properties, all.properties_ends, count);
    }
    free(all.offset), free(all.born), free(all.stored), free(all.flag), free(all.sys_flag), free(all.reconsumed);
    free(all.crc), free(all.body_ends), free(all.properties_ends), free(all.body), free(all.properties), free(out);
}

/* Whether the messages are alike: then the rest of the compiled code has them, too. */
static int try(const uint8_t *input, size_t size) {
    static const uint8_t names[] = "\3ABC\1D\0", stamp[] = "__RPL_SOURCE\1e/b/0/";
    uint8_t *data = malloc(size ? size : 1);
    memcpy(data, input, size);
    int64_t common[4], stored[64];
    size_t alike = (size_t)replicator_uniform_run(data, size, 0x7fffffff, common);
    if (alike) {
        columns_of(data, size, alike);
        size_t room = next(2) ? ROOM : next(600);
        uint8_t *target = malloc(room ? room : 1);
        replicator_mentions(data, size, (bytes) "A\1", 2);
        replicator_sent(data, size, names, target, room);
        replicator_length(data, size, next(20));
        int64_t written =
            replicator_entries(data, size, stamp, sizeof stamp - 1, names, next(100), 200 + next(4000), target, room, stored);
        uint8_t *entries = malloc(written ? (size_t)written : 1);
        memcpy(entries, target, (size_t)written);
        replicator_records(entries, (size_t)written, 1, 2, target, room);
        free(entries);
        free(target);
    }
    free(data);
    return alike != 0;
}

/* Each file several times, since the room for what is made of it is drawn. */
static uint64_t replay(const char *path, uint64_t *alike) {
    static uint8_t read[1 << 20];
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    size_t size = fread(read, 1, sizeof read, file);
    fclose(file);
    for (int i = 0; i < 16; i++) *alike += (uint64_t)try(read, size);
    return 1;
}

int main(int count, char **arguments) {
    static uint8_t made[MOST];
    uint64_t inputs = 0, alike = 0, files = 0;
    state = (uint64_t)time(NULL);
    for (int i = 2; i < count; i++) files += replay(arguments[i], &alike);
    time_t end = time(NULL) + (count > 1 ? atoi(arguments[1]) : 1);
    for (; (inputs & 1023) || time(NULL) < end; inputs++) {
        size_t size = 0;
        uint32_t first = next(1000), messages = 1 + next(8), v2 = next(2), v6 = next(2);
        memset(made, 0, sizeof made);
        for (uint32_t i = 0; i < messages; i++) size += message(made + size, first + i, (int)v2, (int)v6);
        for (uint32_t edits = next(4); edits; edits--) made[next((uint32_t)size)] = (uint8_t)next(256);
        if (!next(4)) size = next((uint32_t)size + 1);
        alike += (uint64_t)try(made, size);
    }
    printf("%llu inputs, %llu of them alike, after %llu files\n", (unsigned long long)inputs, (unsigned long long)alike,
           (unsigned long long)files);
    return 0;
}
