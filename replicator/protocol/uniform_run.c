/* Stored messages, as the answer to a pull brings them, made the entries of a batch.
 *
 * It does what message.py, properties.py and provenance.py do for one message after the other, for messages that
 * are alike. Whatever is not as expected is left to them: nothing here judges, reports, allocates or keeps anything
 * but a table.
 * The layouts are described in message.py and batch.py. All lengths come from a peer.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MAGIC_V1 = (int)0xDAA320A7, MAGIC_V2 = (int)0xDAA320AB, BORN_HOST_V6 = 0x10, STORE_HOST_V6 = 0x20 };
enum { HEAD = 84, V6_MORE = 12, MAX_PROPERTIES = 32767, MOST_DIGITS = 19 };
enum { NAME_END = 1, ITEM_END = 2, MOST_PAIRS = 256 };

typedef const uint8_t *bytes;

struct message {
    int64_t offset, born, stored;
    int32_t sys_flag, reconsumed;
    size_t size, body_size, properties_size;
    bytes crc, flag, body, properties; /* the body with its length in front */
};

static uint32_t u32(bytes at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int64_t i64(bytes at) { return (int64_t)((uint64_t)u32(at) << 32 | u32(at + 4)); }

static void put_u32(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 24), at[1] = (uint8_t)(value >> 16), at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
}

/* Whether a whole message stands at the front of `left` bytes. */
static int read_message(bytes at, size_t left, struct message *found) {
    if (left < HEAD + 4) return 0;
    size_t size = u32(at);
    int32_t magic = (int32_t)u32(at + 4);
    found->sys_flag = (int32_t)u32(at + 36);
    size_t store_at = 56 + (found->sys_flag & BORN_HOST_V6 ? V6_MORE : 0);
    size_t times_at = store_at + 16 + (found->sys_flag & STORE_HOST_V6 ? V6_MORE : 0);
    size_t body_at = times_at + 12;
    if (size > left || size < body_at + 4) return 0;
    size_t body_size = 4 + (size_t)u32(at + body_at);
    if (body_size > size - body_at) return 0;
    size_t topic_at = body_at + body_size;
    size_t topic_head = magic == MAGIC_V1 ? 1 : 2;
    if ((magic != MAGIC_V1 && magic != MAGIC_V2) || size - topic_at < topic_head) return 0;
    size_t topic_size = magic == MAGIC_V1 ? at[topic_at] : (size_t)at[topic_at] << 8 | at[topic_at + 1];
    size_t properties_at = topic_at + topic_head + topic_size + 2;
    if (properties_at > size) return 0;
    size_t properties_size = (size_t)at[properties_at - 2] << 8 | at[properties_at - 1];
    if (properties_size != size - properties_at) return 0;
    found->offset = i64(at + 20);
    found->born = i64(at + 40);
    found->stored = i64(at + store_at);
    found->reconsumed = (int32_t)u32(at + times_at);
    found->size = size;
    found->crc = at + 8;
    found->flag = at + 16;
    found->body = at + body_at;
    found->body_size = body_size;
    found->properties = at + properties_at;
    found->properties_size = properties_size;
    return 1;
}

/* What messages that are alike have in common; `born` is the first one's. */
struct common {
    int64_t offset, born, same_born;
    int32_t sys_flag, reconsumed;
};

/* The number of messages in `data` if each is whole, their offsets follow one another, and they do not differ in
 * reconsumeTimes or in those bits of sysFlag that are `kept`; 0 otherwise.
 */
int64_t replicator_uniform_run(bytes data, size_t size, int32_t kept, struct common *common) {
    struct message each;
    int64_t count = 0;
    for (size_t at = 0; at < size; at += each.size, count++) {
        if (!read_message(data + at, size - at, &each) || each.offset < 0 || each.stored < 0) return 0;
        if (count == 0)
            *common = (struct common){each.offset, each.born, 1, each.sys_flag & kept, each.reconsumed};
        if (each.offset - common->offset != count || each.reconsumed != common->reconsumed) return 0;
        if ((each.sys_flag & kept) != common->sys_flag) return 0;
        common->same_born &= each.born == common->born;
    }
    return count;
}

/* Whether `text` is in the properties of one of the messages in `data`, which are alike. */
int32_t replicator_mentions(bytes data, size_t size, bytes text, size_t text_size) {
    struct message each;
    for (size_t at = 0; at < size && read_message(data + at, size - at, &each); at += each.size)
        if (memmem(each.properties, each.properties_size, text, text_size) != NULL) return 1;
    return 0;
}

/* Whether the property at `item` has one of `names`: each behind its length, 0 behind the last. */
static int is_named(bytes item, size_t size, bytes names) {
    for (; *names; names += 1 + *names)
        if (size > *names && item[*names] == 1 && memcmp(item, names + 1, *names) == 0) return 1;
    return 0;
}

/* Copies properties but for those with one of `names`; each behind the byte that ends the one before, none at the
 * end of all. Takes one byte more than `size` at most.
 */
static uint8_t *put_properties(uint8_t *out, bytes properties, size_t size, bytes names) {
    uint8_t *start = out;
    bytes end = properties + size;
    for (bytes item = properties; item < end;) {
        bytes stop = memchr(item, ITEM_END, (size_t)(end - item));
        if (stop == NULL) stop = end;
        size_t length = (size_t)(stop - item);
        if (!is_named(item, length, names)) {
            *out++ = ITEM_END;
            memcpy(out, item, length);
            out += length;
        }
        item = stop < end ? stop + 1 : end;
    }
    while (out > start && out[-1] == ITEM_END) out--;
    return out;
}

static uint8_t *put_number(uint8_t *out, int64_t value) {
    uint8_t digits[MOST_DIGITS];
    size_t count = 0;
    do digits[count++] = (uint8_t)('0' + value % 10);
    while (value /= 10);
    while (count) *out++ = digits[--count];
    return out;
}

/* Writes an entry but for its properties and the lengths; gives the place of the properties' length. */
static uint8_t *put_body(uint8_t *entry, const struct message *each) {
    put_u32(entry + 4, 0);
    memcpy(entry + 8, each->crc, 4);
    memcpy(entry + 12, each->flag, 4);
    memcpy(entry + 16, each->body, each->body_size);
    return entry + 16 + each->body_size;
}

/* Writes the lengths of an entry whose properties end at `end`, and of these, which are MAX_PROPERTIES at most. */
static void put_lengths(uint8_t *entry, uint8_t *length, const uint8_t *end) {
    size_t properties_size = (size_t)(end - length - 2);
    length[0] = (uint8_t)(properties_size >> 8), length[1] = (uint8_t)properties_size;
    put_u32(entry, (uint32_t)(end - entry));
}

/* Makes the copies in `data`, which are alike, the entries of the batch in which they were sent: their properties
 * are without those that have one of `names`.
 *
 * Gives the bytes written to `out`; 0 if properties would be too long, or if `room` is too small.
 */
int64_t replicator_sent(bytes data, size_t size, bytes names, uint8_t *out, size_t room) {
    uint8_t *at_out = out, *room_end = out + room;
    struct message each;
    for (size_t at = 0; at < size; at += each.size) {
        if (!read_message(data + at, size - at, &each)) return 0;
        if ((size_t)(room_end - at_out) < 16 + each.body_size + 2 + each.properties_size + 2) return 0;
        uint8_t *entry = at_out, *length = put_body(entry, &each);
        /* The byte in front of the first property comes to lie in the length, which is written last. */
        at_out = put_properties(length + 1, each.properties, each.properties_size, names);
        *at_out++ = ITEM_END;
        if (at_out - length - 2 > MAX_PROPERTIES) return 0;
        put_lengths(entry, length, at_out);
    }
    return at_out - out;
}

/* Writes of each entry of a batch its properties, checksum and flag, and then `sys_flag` and `reconsumed`.
 *
 * Gives the bytes written to `out`; 0 if `room` is too small. The entries were made here.
 */
int64_t replicator_records(bytes entries, size_t size, int32_t sys_flag, int32_t reconsumed, uint8_t *out, size_t room) {
    uint8_t *at_out = out, *room_end = out + room;
    for (bytes entry = entries, end = entries + size; entry < end; entry += u32(entry)) {
        bytes length = entry + 20 + u32(entry + 16);
        size_t properties_size = (size_t)length[0] << 8 | length[1];
        if ((size_t)(room_end - at_out) < properties_size + 16) return 0;
        memcpy(at_out, length + 2, properties_size);
        memcpy(at_out + properties_size, entry + 8, 8);
        at_out += properties_size + 16;
        put_u32(at_out - 8, (uint32_t)sys_flag), put_u32(at_out - 4, (uint32_t)reconsumed);
    }
    return at_out - out;
}

/* Columns of messages. Bodies are without their lengths and properties without the bytes that end them; theirs lie
 * one behind the other, and end where the number behind their own says. The first of these is 0.
 */
struct columns {
    int64_t *offset, *born, *stored;
    int32_t *flag, *sys_flag, *reconsumed, *crc, *body_ends, *properties_ends;
    uint8_t *body, *properties;
};

/* Takes apart the messages in `data`, behind the `done` that `columns` have; they have room for `most` more of them,
 * and for all of `data`.
 *
 * Gives their number; 0 if there are more, or if one is not whole.
 */
int64_t replicator_take_apart(bytes data, size_t size, int64_t most, const struct columns *columns, int64_t done) {
    struct message each;
    int64_t to = done;
    size_t bodies = (size_t)columns->body_ends[done], properties = (size_t)columns->properties_ends[done];
    for (size_t at = 0; at < size; at += each.size, to++) {
        if (to - done == most || !read_message(data + at, size - at, &each)) return 0;
        size_t left = each.properties_size;
        while (left && each.properties[left - 1] == ITEM_END) left--;
        columns->offset[to] = each.offset, columns->born[to] = each.born, columns->stored[to] = each.stored;
        columns->flag[to] = (int32_t)u32(each.flag), columns->crc[to] = (int32_t)u32(each.crc);
        columns->sys_flag[to] = each.sys_flag, columns->reconsumed[to] = each.reconsumed;
        memcpy(columns->body + bodies, each.body + 4, each.body_size - 4);
        memcpy(columns->properties + properties, each.properties, left);
        bodies += each.body_size - 4, properties += left;
        columns->body_ends[to + 1] = (int32_t)bodies, columns->properties_ends[to + 1] = (int32_t)properties;
    }
    return to - done;
}

struct pair {
    bytes name, value;
    size_t name_size, value_size;
};

/* Where the properties of messages go, as names and values: for each message how many pairs come before its own, and
 * whether they give its properties back; for each pair where its name and its value end. Numbers begin with 0.
 */
struct pairs {
    int32_t *before, *name_ends, *value_ends;
    uint8_t *same, *names, *values;
};

/* The pairs of one message; -1 if there are more than MOST_PAIRS. Of a name that comes twice the last value holds. */
static int find_pairs(bytes at, bytes end, struct pair *found, uint8_t *same) {
    int count = 0;
    *same = 1;
    for (bytes stop; at < end; at = stop + 1) {
        if ((stop = memchr(at, ITEM_END, (size_t)(end - at))) == NULL) stop = end;
        size_t size = (size_t)(stop - at);
        bytes middle = memchr(at, NAME_END, size);
        if (middle == NULL) *same = 0;
        if (size == 0) continue;
        struct pair each = {at, middle ? middle + 1 : stop, middle ? (size_t)(middle - at) : size, 0};
        each.value_size = (size_t)(stop - each.value);
        int to = 0;
        while (to < count && !(found[to].name_size == each.name_size &&
                               memcmp(found[to].name, each.name, each.name_size) == 0))
            to++;
        if (to == MOST_PAIRS) return -1;
        if (to < count) *same = 0;
        if (to == count) count++;
        found[to].value = each.value, found[to].value_size = each.value_size;
        found[to].name = each.name, found[to].name_size = each.name_size;
    }
    return count;
}

/* Splits the properties of `count` messages, which end in `data` where `ends` says; `to` has room for `most` pairs and
 * for all of `data` twice.
 *
 * Gives the number of pairs; -1 if there are more.
 */
int64_t replicator_pairs(bytes data, const int32_t *ends, int64_t count, const struct pairs *to, int64_t most) {
    struct pair found[MOST_PAIRS];
    int64_t made = 0;
    uint8_t *name = to->names, *value = to->values;
    to->before[0] = to->name_ends[0] = to->value_ends[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        int own = find_pairs(data + ends[i], data + ends[i + 1], found, to->same + i);
        if (own < 0 || own > most - made) return -1;
        for (int each = 0; each < own; each++) {
            memcpy(name, found[each].name, found[each].name_size), name += found[each].name_size;
            memcpy(value, found[each].value, found[each].value_size), value += found[each].value_size;
            made++;
            to->name_ends[made] = (int32_t)(name - to->names), to->value_ends[made] = (int32_t)(value - to->values);
        }
        to->before[i + 1] = (int32_t)made;
    }
    return made;
}

static uint8_t *put_i64(uint8_t *at, int64_t value) {
    put_u32(at, (uint32_t)((uint64_t)value >> 32)), put_u32(at + 4, (uint32_t)value);
    return at + 8;
}

/* The checksum of a body, which is that of zip files without its first bit (`UtilAll.crc32`); eight bytes at a time. */
static uint32_t checksum(bytes at, size_t size) {
    static uint32_t tables[8][256];
    uint32_t sum = ~0u;
    if (tables[7][255] == 0) { /* callers hold the interpreter's lock */
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t value = byte;
            for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0);
            tables[0][byte] = value;
        }
        for (int table = 1; table < 8; table++)
            for (int byte = 0; byte < 256; byte++) {
                uint32_t before = tables[table - 1][byte];
                tables[table][byte] = before >> 8 ^ tables[0][before & 255];
            }
    }
    for (; size >= 8; at += 8, size -= 8) {
        sum ^= (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
        sum = tables[7][sum & 255] ^ tables[6][sum >> 8 & 255] ^ tables[5][sum >> 16 & 255] ^ tables[4][sum >> 24] ^
              tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^ tables[0][at[7]];
    }
    while (size--) sum = sum >> 8 ^ tables[0][(sum ^ *at++) & 255];
    return ~sum & 0x7FFFFFFF;
}

/* Puts `count` messages together as a broker would have stored them, with the checksums of their bodies (columns' own
 * are not read); hosts, whose addresses are not known, are IPv4.
 *
 * Gives the bytes written to `out`; 0 if `room` is too small, or if properties are too long.
 */
int64_t replicator_put_together(int64_t count, const struct columns *from, uint8_t *out, size_t room) {
    uint8_t *at = out;
    for (int64_t i = 0; i < count; i++) {
        size_t body_size = (size_t)(from->body_ends[i + 1] - from->body_ends[i]);
        size_t properties_size = (size_t)(from->properties_ends[i + 1] - from->properties_ends[i]);
        size_t ended = properties_size + (properties_size > 0), size = HEAD + 4 + body_size + 2 + 2 + ended;
        if (room - (size_t)(at - out) < size || ended > MAX_PROPERTIES) return 0;
        uint8_t *start = at;
        memset(start, 0, HEAD);
        put_u32(start, (uint32_t)size), put_u32(start + 4, (uint32_t)MAGIC_V1);
        put_u32(start + 8, checksum(from->body + from->body_ends[i], body_size));
        put_u32(start + 16, (uint32_t)from->flag[i]);
        put_i64(start + 20, from->offset[i]);
        put_u32(start + 36, (uint32_t)(from->sys_flag[i] & ~(BORN_HOST_V6 | STORE_HOST_V6)));
        put_i64(start + 40, from->born[i]), put_i64(start + 56, from->stored[i]);
        put_u32(start + 72, (uint32_t)from->reconsumed[i]), put_u32(start + HEAD, (uint32_t)body_size);
        at = start + HEAD + 4;
        memcpy(at, from->body + from->body_ends[i], body_size), at += body_size;
        *at++ = 1, *at++ = 'T'; /* a topic, which nobody reads */
        *at++ = (uint8_t)(ended >> 8), *at++ = (uint8_t)ended;
        memcpy(at, from->properties + from->properties_ends[i], properties_size), at += properties_size;
        if (properties_size) *at++ = ITEM_END;
    }
    return at - out;
}

/* The bytes of the first `count` messages in `data`, which are alike. */
int64_t replicator_length(bytes data, size_t size, int64_t count) {
    size_t at = 0;
    while (count-- > 0 && at < size) at += u32(data + at);
    return (int64_t)at;
}

/* Makes entries of the messages in `data`, which are alike: their properties are `stamp`, the offset, a slash, the
 * store timestamp, and what is left of their own without those that have one of `names`.
 *
 * Gives the bytes written to `out`; 0 if properties would be too long, if entries and `more` bytes for each are
 * over `limit` where it is not one message alone, or if `room` is too small. `stored` gets the store timestamps.
 */
int64_t replicator_entries(bytes data, size_t size, bytes stamp, size_t stamp_size, bytes names, int64_t more,
                           int64_t limit, uint8_t *out, size_t room, int64_t *stored) {
    uint8_t *at_out = out, *room_end = out + room;
    int64_t count = 0, weight = 0;
    struct message each;
    for (size_t at = 0; at < size; at += each.size, count++) {
        if (!read_message(data + at, size - at, &each)) return 0;
        size_t most = 16 + each.body_size + 2 + stamp_size + 2 * MOST_DIGITS + 1 + each.properties_size + 2;
        if ((size_t)(room_end - at_out) < most) return 0;
        uint8_t *entry = at_out, *length = put_body(entry, &each);
        memcpy(length + 2, stamp, stamp_size);
        at_out = put_number(length + 2 + stamp_size, each.offset);
        *at_out++ = '/';
        at_out = put_number(at_out, each.stored);
        at_out = put_properties(at_out, each.properties, each.properties_size, names);
        *at_out++ = ITEM_END;
        if (at_out - length - 2 > MAX_PROPERTIES) return 0;
        put_lengths(entry, length, at_out);
        weight += (at_out - entry) + more;
        if (weight > limit && count > 0) return 0;
        stored[count] = each.stored;
    }
    return at_out - out;
}
