/* Finds and opens the library that the shim stands in for; never the shim itself.
 *
 * Asking the loader for "libibverbs.so.1" would give the shim, whose soname that is. So paths are tried:
 * MONKEYTREE_VERBS_REAL alone where it is set; else the entries of LD_LIBRARY_PATH, the library the shim was
 * built for, and the usual directories.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shim.h"

extern const char monkeytree_verbs_shim[]; /* exported: by it a second copy of the shim is known */

static const char *const usual[] = {
    "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
    "/lib/aarch64-linux-gnu",    "/usr/lib64",            "/lib64",
    "/usr/local/lib",            "/usr/lib",              "/lib",
};

static int is_this(const char *path) {
    Dl_info self;
    struct stat ours, theirs;
    if (!dladdr(monkeytree_verbs_shim, &self) || !self.dli_fname) return 0;
    if (stat(self.dli_fname, &ours) != 0 || stat(path, &theirs) != 0) return 0;
    return ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

static void *try(const char *path) {
    struct stat there;
    if (stat(path, &there) != 0 || is_this(path)) return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library && dlsym(library, "monkeytree_verbs_shim")) {
        dlclose(library);
        library = NULL;
    }
    return library;
}

static void *try_in(const char *directory, size_t length) {
    char path[PATH_MAX];
    if (!length) return NULL;
    int written = snprintf(path, sizeof path, "%.*s/libibverbs.so.1", (int)length, directory);
    return written < (int)sizeof path ? try(path) : NULL;
}

static void *search(const char *path_list) {
    void *library = NULL;
    while (path_list && *path_list && !library) {
        size_t length = strcspn(path_list, ":;");
        library = try_in(path_list, length);
        path_list += length;
        path_list += *path_list != 0;
    }
    return library;
}

void *mt_open_real(void) {
    const char *named = secure_getenv("MONKEYTREE_VERBS_REAL");
    if (named && *named) return try(named);
    void *library = search(secure_getenv("LD_LIBRARY_PATH"));
    if (!library && *mt_built_for) library = try(mt_built_for);
    for (size_t i = 0; !library && i < sizeof usual / sizeof *usual; i++)
        library = try_in(usual[i], strlen(usual[i]));
    return library;
}
