/* The table's text: lines `srcIP,dstIP=port[,port...]`, '#' starts a comment line, blank lines are skipped.
 *
 * The form is that of Huawei's HCCL_RDMA_QP_PORT_CONFIG_PATH; here addresses may be IPv6 too, as they are,
 * without brackets: neither ',' nor '=' occurs in them. A line's addresses are of one family. One line that
 * is not understood discards the whole table: half a table steers some flows onto uplinks that others were
 * meant to have.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

enum { FIRST_PORT = 0xC000, LAST_PORT = 0xFFFF };

struct reader {
    const char *at, *end;
    struct mt_entry *entries;
    size_t count, room;
};

static int add(struct reader *reader, struct mt_entry entry) {
    if (reader->count == reader->room) {
        size_t room = reader->room ? 2 * reader->room : 64;
        struct mt_entry *more = realloc(reader->entries, room * sizeof *more);
        if (!more) return 0;
        reader->entries = more;
        reader->room = room;
    }
    entry.order = (uint32_t)reader->count;
    reader->entries[reader->count++] = entry;
    return 1;
}

int mt_is_ipv4(const mt_gid *gid) {
    static const uint8_t prefix[12] = {[10] = 0xFF, [11] = 0xFF};
    return memcmp(gid->raw, prefix, sizeof prefix) == 0;
}

/* An address up to `stop`, which is passed over. */
static int address(struct reader *reader, char stop, mt_gid *gid) {
    const char *end = memchr(reader->at, stop, (size_t)(reader->end - reader->at));
    char text[INET6_ADDRSTRLEN];
    if (!end || (size_t)(end - reader->at) >= sizeof text) return 0;
    memcpy(text, reader->at, (size_t)(end - reader->at));
    text[end - reader->at] = 0;
    reader->at = end + 1;
    if (strchr(text, ':')) return inet_pton(AF_INET6, text, gid->raw) == 1;
    memset(gid->raw, 0, 10);
    memset(gid->raw + 10, 0xFF, 2);
    return inet_pton(AF_INET, text, gid->raw + 12) == 1;
}

static int number(struct reader *reader, uint16_t *port) {
    unsigned value = 0;
    const char *start = reader->at;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9' && value <= LAST_PORT)
        value = 10 * value + (unsigned)(*reader->at++ - '0');
    if (reader->at == start || value < FIRST_PORT || value > LAST_PORT) return 0;
    *port = (uint16_t)value;
    return 1;
}

static int line(struct reader *reader) {
    struct mt_entry entry = {0};
    if (!address(reader, ',', &entry.source) || !address(reader, '=', &entry.target)) return 0;
    if (mt_is_ipv4(&entry.source) != mt_is_ipv4(&entry.target)) return 0;
    for (;;) {
        if (!number(reader, &entry.port) || !add(reader, entry)) return 0;
        if (reader->at == reader->end) return 1;
        if (*reader->at++ != ',') return 0;
    }
}

static int compare(const void *left, const void *right) {
    const struct mt_entry *a = left, *b = right;
    int ends = memcmp(&a->source, &b->source, sizeof a->source);
    if (!ends) ends = memcmp(&a->target, &b->target, sizeof a->target);
    if (ends) return ends;
    return a->order < b->order ? -1 : 1; /* the ports of a pair stay as they were written */
}

struct mt_entry *mt_parse(const char *text, size_t length, size_t *count) {
    struct reader reader = {.end = text};
    const char *end = text + length;
    int good = 1;
    while (good && reader.end < end) {
        const char *stop = memchr(reader.end, '\n', (size_t)(end - reader.end));
        reader.at = reader.end;
        reader.end = stop ? stop : end;
        if (reader.end > reader.at && reader.end[-1] == '\r') reader.end--;
        if (reader.at < reader.end && *reader.at != '#') good = line(&reader);
        reader.end = stop ? stop + 1 : end;
    }
    if (!good) {
        free(reader.entries);
        reader.entries = NULL;
        reader.count = 0;
    }
    if (reader.count) qsort(reader.entries, reader.count, sizeof *reader.entries, compare);
    *count = reader.count;
    return reader.entries;
}
