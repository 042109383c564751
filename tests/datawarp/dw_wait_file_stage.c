/* Again after the end; of nothing; of what waits for the job's end; of what failed. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *file = at(buffer, "file");
    put(file, "x");
    IS(dw_wait_file_stage(file), -EINVAL);
    IS(dw_stage_file_out(file, at(pfs, "file"), DW_STAGE_IMMEDIATE), 0);
    IS(dw_wait_file_stage(file), 0);
    IS(dw_wait_file_stage(file), 0);
    CHECK(has(at(pfs, "file"), "x"));
    IS(dw_stage_file_out(file, at(pfs, "file"), DW_STAGE_AT_JOB_END), 0);
    IS(dw_wait_file_stage(file), -EDEADLK);
    put(at(pfs, "obstacle"), "");
    IS(dw_stage_file_out(file, at(pfs, "obstacle/file"), DW_STAGE_IMMEDIATE), 0);
    IS(dw_wait_file_stage(file), -ENOTDIR);
    IS(dw_terminate_file_stage(file), 0);
    return 0;
}
