/* With all that is in the folder, and nothing else. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *folder = at(buffer, "folder"), *beside = at(buffer, "folder2");
    CHECK(mkdir(folder, 0755) == 0);
    put(at(folder, "a"), "a");
    put(beside, "b");
    IS(dw_stage_file_out(at(folder, "a"), at(pfs, "a"), DW_STAGE_AT_JOB_END), 0);
    IS(dw_stage_file_out(beside, at(pfs, "b"), DW_STAGE_AT_JOB_END), 0);
    IS(dw_terminate_directory_stage(folder), 0);
    IS(of_file(at(folder, "a")), 0);
    IS(of_file(beside), 10);
    IS(dw_terminate_directory_stage(folder), -EINVAL);
    return 0;
}
