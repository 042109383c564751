/* The sum over files. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *files[] = {at(buffer, "a"), at(buffer, "b"), at(buffer, "c"), NULL};
    for (int i = 0; i < 3; i++)
        put(files[i], "x");
    IS(dw_stage_file_out(files[0], at(pfs, "a"), DW_STAGE_IMMEDIATE), 0);
    IS(dw_stage_file_out(files[1], at(pfs, "b"), DW_STAGE_AT_JOB_END), 0);
    IS(dw_wait_file_stage(files[0]), 0);
    int complete = -1, pending = -1, deferred = -1, failed = -1;
    IS(dw_query_list_stage(files, &complete, &pending, &deferred, &failed), 0);
    CHECK(complete == 1 && pending == 0 && deferred == 1 && failed == 0);
    IS(dw_query_list_stage(NULL, &complete, &pending, &deferred, &failed), -EINVAL);
    return 0;
}
