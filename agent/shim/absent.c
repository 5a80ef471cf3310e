/* What a call does where there is nothing to forward it to: it fails as a missing device would. */
#include <errno.h>
#include <stddef.h>

#include "shim.h"

void *mt_absent_pointer(void) {
    errno = ENOSYS;
    return NULL;
}

int mt_absent_status(void) {
    errno = ENOSYS;
    return ENOSYS;
}
