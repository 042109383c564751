/*
 * libdatawarp: staging between a buffer and the parallel file system (PFS), as programs for Cray DataWarp call it.
 *
 * Every function but those that return a pointer returns 0, or an errno with a minus sign; errno itself is not set.
 * Arguments are always (buffer, PFS), also for staging in: the destination comes first there. Staging is asynchronous
 * and goes on when the calling process ends. All functions may be called by many threads and processes at once.
 * What each does and where it differs from DataWarp's is in Forebay's docs/libdatawarp.md.
 */
#ifndef DATAWARP_H
#define DATAWARP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* When a stage-out is due, or what becomes of one that is deferred. */
enum dw_stage_type {
    DW_STAGE_IMMEDIATE = 0,         /* as soon as its turn comes */
    DW_STAGE_AT_JOB_END = 1,        /* when the job has ended, however that was */
    DW_REVOKE_STAGE_AT_JOB_END = 2, /* forget a deferred one; the PFS path is NULL */
    DW_ACTIVATE_DEFERRED_STAGE = 3  /* make a deferred one immediate; the PFS path is NULL */
};

/* Stage in. A list holds PFS files and ends with NULL; they keep their names in the directory. */
int dw_stage_file_in(const char *dw_file_path, const char *pfs_file_path);
int dw_stage_directory_in(const char *dw_directory, const char *pfs_directory);
int dw_stage_list_in(const char *dw_directory, const char **pfs_list);

/* Stage out. A list holds files in the buffer and ends with NULL. */
int dw_stage_file_out(const char *dw_file_path, const char *pfs_file_path, enum dw_stage_type type);
int dw_stage_directory_out(const char *dw_directory, const char *pfs_directory, enum dw_stage_type type);
int dw_stage_list_out(const char **dw_list, const char *pfs_directory, enum dw_stage_type type);

/* How many files are in which state. Any of the last four arguments may be NULL. */
int dw_query_file_stage(const char *dw_path, int *complete, int *pending, int *deferred, int *failed);
int dw_query_directory_stage(const char *dw_path, int *complete, int *pending, int *deferred, int *failed);
int dw_query_list_stage(const char **dw_list, int *complete, int *pending, int *deferred, int *failed);

/* Return when nothing is under way: 0, or the reason of the first failure. -EINVAL where nothing was staged. */
int dw_wait_file_stage(const char *dw_path);
int dw_wait_directory_stage(const char *dw_path);
int dw_wait_list_stage(const char **dw_list);

/* Stop and forget stages that are not complete. -EINVAL where there are none. */
int dw_terminate_file_stage(const char *dw_path);
int dw_terminate_directory_stage(const char *dw_path);
int dw_terminate_list_stage(const char **dw_list);

/* The files whose stages failed, one for each call; -ENODATA after the last. ret_errno is positive, or 0 where the
 * contents did not compare. */
typedef struct dw_failed_stage dw_failed_stage_t;
int dw_open_failed_stage(const char *dw_instance_path, dw_failed_stage_t **handle);
int dw_read_failed_stage(dw_failed_stage_t *handle, char *path, int path_size, int *ret_errno);
int dw_close_failed_stage(dw_failed_stage_t *handle);

/* How many stages of the buffer may run at once. */
int dw_set_stage_concurrency(const char *dw_instance_path, unsigned int concurrent_stages);

/* How a file's bytes are spread. Setting is a hint. */
int dw_set_stripe_configuration(int fd, int stripe_size, int stripe_width);
int dw_get_stripe_configuration(int fd, int *stripe_size, int *stripe_width, int *starting_index);

/* The folder to use for this key, so that metadata servers share the work; to be freed. NULL where dw_root is in no buffer. */
char *dw_get_mds_path(const char *dw_root, uint64_t key);

/* The buffer as a JSON text; to be freed. NULL with the reason in *err. */
char *dw_get_accounting_data_json(const char *dw_path, int *err);

/* Return when what was written to the file is safe. */
int dw_wait_sync_complete(int fd);

#ifdef __cplusplus
}
#endif

#endif
