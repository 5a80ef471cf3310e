/* Whether the agent that wrote the table still runs.
 *
 * The agent holds an open-file-description write lock on TABLE.lock for as long as it lives; the kernel drops
 * it at the agent's death, however that comes. Asking takes no lock and works across containers that
 * share the directory. No lock file: the table was put there by hand and stands for itself.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "shim.h"

int mt_agent_present(const char *table) {
    char path[PATH_MAX];
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    if (snprintf(path, sizeof path, "%s.lock", table) >= (int)sizeof path) return 1;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 1;
    int asked = fcntl(file, F_OFD_GETLK, &lock);
    close(file);
    return asked == 0 && lock.l_type != F_UNLCK;
}
