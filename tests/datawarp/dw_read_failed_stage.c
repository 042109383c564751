/* Path and errno of each; not of a file that was unlinked, not after another try. */
#include "check.h"

/* Looks for a path among the failures; its errno, or -1. Others use the buffer, too. */
static int errno_of(const char *wanted)
{
    dw_failed_stage_t *handle;
    char path[4096];
    int code, found = -1, result;
    IS(dw_open_failed_stage(buffer, &handle), 0);
    while ((result = dw_read_failed_stage(handle, path, sizeof path, &code)) == 0)
        if (strcmp(strrchr(path, '/'), strrchr(wanted, '/')) == 0 && strstr(path, "dw_read_failed_stage") != NULL)
            found = code;
    IS(result, -ENODATA);
    IS(dw_close_failed_stage(handle), 0);
    return found;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *file = at(buffer, "file"), *gone = at(buffer, "gone");
    put(file, "x");
    put(gone, "y");
    put(at(pfs, "obstacle"), "");
    IS(dw_stage_file_out(file, at(pfs, "obstacle/file"), DW_STAGE_IMMEDIATE), 0);
    IS(dw_stage_file_out(gone, at(pfs, "obstacle/gone"), DW_STAGE_IMMEDIATE), 0);
    IS(dw_wait_file_stage(file), -ENOTDIR);
    IS(dw_wait_file_stage(gone), -ENOTDIR);
    IS(errno_of(file), ENOTDIR);
    IS(errno_of(gone), ENOTDIR);
    CHECK(unlink(gone) == 0);
    IS(errno_of(gone), -1);

    dw_failed_stage_t *handle;
    char small[3];
    IS(dw_open_failed_stage(buffer, &handle), 0);
    IS(dw_read_failed_stage(handle, small, sizeof small, NULL), -ERANGE);
    IS(dw_read_failed_stage(handle, NULL, 0, NULL), -EINVAL);
    IS(dw_close_failed_stage(handle), 0);

    IS(dw_stage_file_out(file, at(pfs, "file"), DW_STAGE_IMMEDIATE), 0);
    IS(dw_wait_file_stage(file), 0);
    IS(errno_of(file), -1);
    IS(dw_terminate_file_stage(gone), 0);
    return 0;
}
