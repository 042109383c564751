/* An empty list, and none of what is no buffer. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    dw_failed_stage_t *handle = NULL;
    IS(dw_open_failed_stage(buffer, &handle), 0);
    CHECK(handle != NULL);
    IS(dw_close_failed_stage(handle), 0);
    IS(dw_open_failed_stage(pfs, &handle), -EINVAL);
    IS(dw_open_failed_stage(buffer, NULL), -EINVAL);
    return 0;
}
