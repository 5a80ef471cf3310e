/* The proof: one line of JSON for each queue pair, written with one write() to a file opened for appending.
 *
 * MONKEYTREE_VERBS_LOG names a file, or a directory in which each process writes its own `UID-PID.jsonl`.
 * Unset: the directory `log` beside the table, where there is one. A log that cannot be written never stops a job.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shim.h"

static const char *text_of(const mt_gid *gid, char text[INET6_ADDRSTRLEN]) {
    if (mt_is_ipv4(gid)) return inet_ntop(AF_INET, gid->raw + 12, text, INET6_ADDRSTRLEN);
    return inet_ntop(AF_INET6, gid->raw, text, INET6_ADDRSTRLEN);
}

static int is_directory(const char *path) {
    struct stat there;
    return stat(path, &there) == 0 && S_ISDIR(there.st_mode);
}

/* Where to write; `room` has PATH_MAX bytes. NULL: nowhere. */
static const char *log_path(char *room) {
    const char *given = secure_getenv("MONKEYTREE_VERBS_LOG"), *table = mt_table_path();
    const char *slash = strrchr(table, '/');
    char beside[PATH_MAX];
    if (given && !is_directory(given)) return *given ? given : NULL;
    int length = slash ? (int)(slash - table) : 1;
    int written = snprintf(beside, sizeof beside, "%.*s/log", length, slash ? table : ".");
    if (!given && (written >= PATH_MAX || !is_directory(beside))) return NULL;
    written = snprintf(room, PATH_MAX, "%s/%u-%ld.jsonl", given ? given : beside, getuid(), (long)getpid());
    return written < PATH_MAX ? room : NULL;
}

static int open_log(void) {
    char room[PATH_MAX];
    const char *path = log_path(room);
    if (!path) return -1;
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
}

void mt_log(const struct mt_record *record) {
    char line[512], source[INET6_ADDRSTRLEN], target[INET6_ADDRSTRLEN];
    struct timespec now;
    int file = open_log();
    if (file < 0) return;
    clock_gettime(CLOCK_REALTIME, &now);
    int length = snprintf(line, sizeof line,
        "{\"time\": %lld.%06ld, \"pid\": %ld, \"what\": \"%s\", \"qp_num\": %u, \"dest_qp_num\": %u, "
        "\"source\": \"%s\", \"target\": \"%s\", \"nth\": %u, \"udp_source_port\": %u, \"flow_label\": %u, "
        "\"result\": %d}\n",
        (long long)now.tv_sec, now.tv_nsec / 1000, (long)getpid(), record->what, record->qp_num,
        record->dest_qp_num, text_of(&record->source, source), text_of(&record->target, target),
        record->choice.nth, record->choice.port, record->label, record->result);
    if (length > 0 && length < (int)sizeof line && write(file, line, (size_t)length) != length)
        mt_warn("could not append to the log");
    close(file);
}

void mt_warn(const char *format, ...) {
    va_list arguments;
    fputs("monkeytree verbs shim: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}
