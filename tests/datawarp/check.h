/* What the programs for libdatawarp's functions share: `PROGRAM BUFFER PFS`, two folders of the program's own. */
#define _GNU_SOURCE
#include <datawarp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                                   \
    do {                                                                              \
        if (!(what)) {                                                                \
            fprintf(stderr, "%s:%d: %s is not so\n", __FILE__, __LINE__, #what);      \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

#define IS(call, wanted)                                                              \
    do {                                                                              \
        int got = (call);                                                             \
        if (got != (wanted)) {                                                        \
            fprintf(stderr, "%s:%d: %s is %d (%s), not %d\n", __FILE__, __LINE__, #call, got, \
                    strerror(got < 0 ? -got : got), (int)(wanted));                   \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

static const char *buffer, *pfs;

static inline void begin(int argc, char **argv)
{
    CHECK(argc == 3);
    buffer = argv[1];
    pfs = argv[2];
    CHECK(mkdir(buffer, 0755) == 0);
    CHECK(mkdir(pfs, 0755) == 0);
}

/* A path in a folder. */
static inline const char *at(const char *folder, const char *name)
{
    char *path;
    CHECK(asprintf(&path, "%s/%s", folder, name) > 0);
    return path;
}

static inline void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    CHECK(fputs(text, file) >= 0);
    CHECK(fclose(file) == 0);
}

static inline int has(const char *path, const char *text)
{
    char found[256] = "";
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    found[fread(found, 1, sizeof found - 1, file)] = 0;
    fclose(file);
    return strcmp(found, text) == 0;
}

static inline int exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* complete, pending, deferred and failed as one number, as 1020 for one complete and two deferred. */
static inline int of_file(const char *path)
{
    int complete = -1, pending = -1, deferred = -1, failed = -1;
    IS(dw_query_file_stage(path, &complete, &pending, &deferred, &failed), 0);
    return complete * 1000 + pending * 100 + deferred * 10 + failed;
}
