/* For the stages of all that is in the folder. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *folder = at(buffer, "folder");
    CHECK(mkdir(folder, 0755) == 0);
    IS(dw_wait_directory_stage(folder), -EINVAL);
    put(at(folder, "a"), "a");
    put(at(folder, "b"), "b");
    IS(dw_stage_file_out(at(folder, "a"), at(pfs, "a"), DW_STAGE_IMMEDIATE), 0);
    IS(dw_stage_file_out(at(folder, "b"), at(pfs, "b"), DW_STAGE_IMMEDIATE), 0);
    IS(dw_wait_directory_stage(folder), 0);
    CHECK(has(at(pfs, "a"), "a") && has(at(pfs, "b"), "b"));
    return 0;
}
