/* Calls the compiled code with what is on standard input, and writes what it gives: for processors of another kind.
 *
 * Input and output are of the machine's own byte order: seven 64-bit numbers (the sizes of data, stamp, names and names
 * that a batch was sent without; `more`, `limit` and `kept`), then those texts. Output: the count, what is common, and per way its length and bytes.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef const uint8_t *bytes;

int64_t replicator_uniform_run(bytes data, size_t size, int32_t kept, void *common);
int64_t replicator_sent(bytes data, size_t size, bytes names, uint8_t *out, size_t room);
int64_t replicator_entries(bytes data, size_t size, bytes stamp, size_t stamp_size, bytes names, int64_t more,
                           int64_t limit, uint8_t *out, size_t room, int64_t *stored);

enum { ROOM = 1 << 20, MOST = 1024 };

static uint8_t *read_text(int64_t size) {
    uint8_t *text = malloc((size_t)size + 1);
    if (!text || fread(text, 1, (size_t)size, stdin) != (size_t)size) exit(2);
    return text;
}

static void tell(int64_t number) { fwrite(&number, sizeof number, 1, stdout); }

int main(void) {
    static uint8_t out[ROOM];
    static int64_t stored[MOST], common[4], sizes[7];
    if (fread(sizes, sizeof sizes, 1, stdin) != 1) return 2;
    uint8_t *data = read_text(sizes[0]), *stamp = read_text(sizes[1]);
    uint8_t *names = read_text(sizes[2]), *added = read_text(sizes[3]);
    size_t size = (size_t)sizes[0];
    int64_t count = replicator_uniform_run(data, size, (int32_t)sizes[6], common);
    tell(count);
    for (int i = 0; i < 3; i++) tell(common[i]);
    int64_t written = replicator_entries(data, size, stamp, (size_t)sizes[1], names, sizes[4], sizes[5], out, ROOM, stored);
    tell(written);
    fwrite(out, 1, (size_t)written, stdout);
    for (int64_t i = 0; i < count; i++) tell(stored[i]);
    written = replicator_sent(data, size, added, out, ROOM);
    tell(written);
    fwrite(out, 1, (size_t)written, stdout);
    return 0;
}
