/* In the middle of a list. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *lost = at(buffer, "lost");
    IS(dw_stage_file_in(lost, at(pfs, "absent")), 0);
    IS(dw_wait_file_stage(lost), -ENOENT);
    dw_failed_stage_t *handle;
    IS(dw_open_failed_stage(buffer, &handle), 0);
    IS(dw_close_failed_stage(handle), 0);
    IS(dw_close_failed_stage(NULL), -EINVAL);
    IS(dw_terminate_file_stage(lost), 0);
    return 0;
}
