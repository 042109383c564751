/* What waits is forgotten; what is complete stays; where there is nothing that is an error. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *file = at(buffer, "file");
    put(file, "x");
    IS(dw_terminate_file_stage(file), -EINVAL);
    IS(dw_stage_file_out(file, at(pfs, "never"), DW_STAGE_AT_JOB_END), 0);
    IS(dw_terminate_file_stage(file), 0);
    IS(of_file(file), 0);
    IS(dw_stage_file_out(file, at(pfs, "file"), DW_STAGE_IMMEDIATE), 0);
    IS(dw_wait_file_stage(file), 0);
    IS(dw_terminate_file_stage(file), -EINVAL);
    IS(of_file(file), 1000);
    CHECK(has(at(pfs, "file"), "x"));
    return 0;
}
