/* What the parts of the shim ask of each other. Nothing here is exported (symbols.map). */
#ifndef MONKEYTREE_SHIM_H
#define MONKEYTREE_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include "abi.h"

/* One exported symbol of the library that is stood in for; the list is generated (assembly.py). */
struct mt_symbol {
    const char *name, *version;
    void *absent; /* what a call does where the real library has no such symbol */
    void *data;   /* our copy of an exported object, or NULL for a function */
    size_t size;  /* bytes of that object */
};

extern const struct mt_symbol mt_symbols[];
extern const unsigned mt_symbol_count;
extern void *mt_slots[];            /* where each trampoline jumps */
extern const char mt_built_for[];   /* path of the library the list was read from, or "" */

/* absent.c: what is called where there is nothing to forward to. */
void *mt_absent_pointer(void); /* NULL, errno = ENOSYS */
int mt_absent_status(void);    /* ENOSYS, errno too */

/* real.c: the real library, or NULL. */
void *mt_open_real(void);

/* table.c */
struct mt_choice {
    uint16_t port;  /* UDP source port */
    unsigned nth;   /* how many queue pairs of this pair of addresses came before, since the table changed */
};
/* The port of the next queue pair from `source` to `target`. 0 where the table, as it stands now, names
 * none: then nothing is counted. Safe to call from any thread. */
int mt_next_port(const mt_gid *source, const mt_gid *target, struct mt_choice *choice);
/* Whether the table, as it stands now, may name anything at all. */
int mt_table_in_force(void);
const char *mt_table_path(void);

/* parse.c: the table's text. */
struct mt_entry {
    mt_gid source, target; /* IPv6, or ::ffff:a.b.c.d for IPv4, as RoCEv2's GIDs are */
    uint32_t order;
    uint16_t port;
};
/* Whether an address is IPv4 in the form ::ffff:a.b.c.d. */
int mt_is_ipv4(const mt_gid *gid);
/* Sorted entries of `text`, or NULL with *count = 0 where a line is not understood. Free with free(). */
struct mt_entry *mt_parse(const char *text, size_t length, size_t *count);

/* presence.c: 0 where an agent has held the table's lock and does so no longer. */
int mt_agent_present(const char *table);

/* log.c */
struct mt_record {
    const char *what; /* "set", "refused", "own_label" */
    uint32_t qp_num, dest_qp_num, label;
    mt_gid source, target;
    struct mt_choice choice;
    int result; /* of the call that carried the label */
};
void mt_log(const struct mt_record *record);
void mt_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
