/* Counts files, of the folder's own stage and of stages of files in it. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *folder = at(buffer, "folder");
    CHECK(mkdir(folder, 0755) == 0);
    for (char name[] = "a"; *name <= 'e'; ++*name)
        put(at(folder, name), name);
    IS(dw_stage_directory_out(folder, at(pfs, "all"), DW_STAGE_IMMEDIATE), 0);
    IS(dw_wait_directory_stage(folder), 0);
    int complete = 0, pending = -1, deferred = -1, failed = -1;
    IS(dw_query_directory_stage(folder, &complete, &pending, &deferred, &failed), 0);
    CHECK(complete >= 5 && pending == 0 && deferred == 0 && failed == 0);
    IS(of_file(at(folder, "a")), 1000); /* with its folder */
    IS(dw_stage_file_out(at(folder, "a"), at(pfs, "a"), DW_STAGE_AT_JOB_END), 0);
    IS(dw_query_directory_stage(buffer, NULL, NULL, &deferred, NULL), 0);
    CHECK(deferred == 1);
    return 0;
}
