/* The agent's table: read again whenever the file has changed, and how far each pair has come in it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim.h"

enum { MOST_BYTES = 64 << 20 };

struct counter {
    mt_gid source, target;
    unsigned used;
};

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct stat seen;
static struct mt_entry *entries;
static size_t entry_count;
static uint64_t content; /* FNV-1a of the text in force */
static struct counter *counters;
static size_t counter_count;

const char *mt_table_path(void) {
    const char *path = secure_getenv("MONKEYTREE_VERBS_TABLE");
    return path && *path ? path : "/run/monkeytree/routes.txt";
}

static uint64_t fingerprint(const char *text, size_t length) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < length; i++) hash = (hash ^ (uint8_t)text[i]) * 0x100000001B3u;
    return hash;
}

static void replace(const char *text, size_t length) {
    uint64_t hash = fingerprint(text, length);
    if (entries && hash == content) return; /* touched, not changed: the counters go on */
    free(entries);
    free(counters);
    counters = NULL;
    counter_count = 0;
    entries = mt_parse(text, length, &entry_count);
    content = hash;
    if (length && !entries)
        mt_warn("%s has no line or one that is not srcIP,dstIP=port: nothing is set", mt_table_path());
}

static int same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* The whole file, or NULL; at most `size` bytes. */
static char *slurp(int file, size_t size, size_t *length) {
    char *text = malloc(size + 1);
    *length = 0;
    while (text && *length < size) {
        ssize_t got = read(file, text + *length, size - *length);
        if (got <= 0) break;
        *length += (size_t)got;
    }
    return text;
}

/* With `guard` held: the entries are those of the file as it stands now. */
static void refresh(void) {
    struct stat now;
    size_t length;
    int file = open(mt_table_path(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 || fstat(file, &now) != 0 || !S_ISREG(now.st_mode) || now.st_size > MOST_BYTES) {
        memset(&seen, 0, sizeof seen);
        replace("", 0);
    } else if (!same_file(&now, &seen)) {
        char *text = slurp(file, (size_t)now.st_size, &length);
        if (text) replace(text, length);
        free(text);
        seen = now;
    }
    if (file >= 0) close(file);
}

static int pair_order(const mt_gid *source, const mt_gid *target, const mt_gid *as, const mt_gid *at) {
    int ends = memcmp(source, as, sizeof *source);
    return ends ? ends : memcmp(target, at, sizeof *target);
}

/* The first entry of the pair, and how many it has. */
static const struct mt_entry *find(const mt_gid *source, const mt_gid *target, size_t *ports) {
    size_t low = 0, high = entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct mt_entry *there = entries + middle;
        if (pair_order(&there->source, &there->target, source, target) < 0) low = middle + 1;
        else high = middle;
    }
    for (high = low; high < entry_count; high++)
        if (pair_order(&entries[high].source, &entries[high].target, source, target)) break;
    *ports = high - low;
    return entries + low;
}

/* The counter of the pair; a process talks to few peers, so a list will do. NULL without memory. */
static struct counter *counter_of(const mt_gid *source, const mt_gid *target) {
    for (size_t i = 0; i < counter_count; i++)
        if (!pair_order(&counters[i].source, &counters[i].target, source, target)) return counters + i;
    struct counter *more = realloc(counters, (counter_count + 1) * sizeof *more);
    if (!more) return NULL;
    counters = more;
    counters[counter_count] = (struct counter){*source, *target, 0};
    return counters + counter_count++;
}

int mt_table_in_force(void) {
    pthread_mutex_lock(&guard);
    refresh();
    int any = entry_count > 0;
    pthread_mutex_unlock(&guard);
    return any && mt_agent_present(mt_table_path());
}

int mt_next_port(const mt_gid *source, const mt_gid *target, struct mt_choice *choice) {
    size_t ports;
    pthread_mutex_lock(&guard);
    const struct mt_entry *first = find(source, target, &ports);
    struct counter *counter = ports ? counter_of(source, target) : NULL;
    if (counter) {
        choice->nth = counter->used++;
        choice->port = first[choice->nth % ports].port;
    }
    pthread_mutex_unlock(&guard);
    return counter != NULL;
}
