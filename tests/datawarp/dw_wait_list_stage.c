/* For all files of the list. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *files[] = {at(buffer, "a"), at(buffer, "b"), NULL};
    put(files[0], "a");
    put(files[1], "b");
    IS(dw_wait_list_stage(files), -EINVAL);
    IS(dw_stage_list_out(files, pfs, DW_STAGE_IMMEDIATE), 0);
    IS(dw_wait_list_stage(files), 0);
    CHECK(has(at(pfs, "a"), "a") && has(at(pfs, "b"), "b"));
    return 0;
}
