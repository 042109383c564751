/* One at a time is enough for all; none is not. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *files[] = {at(buffer, "a"), at(buffer, "b"), at(buffer, "c"), NULL};
    for (int i = 0; i < 3; i++)
        put(files[i], "x");
    IS(dw_set_stage_concurrency(buffer, 0), -EINVAL);
    IS(dw_set_stage_concurrency(pfs, 1), -EINVAL);
    IS(dw_set_stage_concurrency(buffer, 1), 0);
    IS(dw_stage_list_out(files, pfs, DW_STAGE_IMMEDIATE), 0);
    IS(dw_wait_list_stage(files), 0);
    IS(dw_set_stage_concurrency(buffer, 8), 0);
    return 0;
}
