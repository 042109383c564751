/* Counts files, of the folder's own stage and of stages of files in it; what was removed since is not there any more. */
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
    IS(dw_terminate_file_stage(at(folder, "a")), 0);

    /* Emptied and filled again: the counts are those of what is there. */
    CHECK(complete == 5);
    CHECK(unlink(at(folder, "a")) == 0);
    IS(of_file(at(folder, "a")), 0);
    IS(dw_query_directory_stage(folder, &complete, NULL, NULL, NULL), 0);
    CHECK(complete == 4);
    for (char name[] = "b"; *name <= 'e'; ++*name)
        CHECK(unlink(at(folder, name)) == 0);
    IS(dw_query_directory_stage(folder, &complete, NULL, NULL, NULL), 0);
    CHECK(complete == 1); /* the folder's own */
    for (char name[] = "x"; *name <= 'z'; ++*name) {
        put(at(pfs, name), name);
        IS(dw_stage_file_in(at(folder, name), at(pfs, name)), 0);
        IS(dw_wait_file_stage(at(folder, name)), 0);
    }
    IS(dw_query_directory_stage(folder, &complete, NULL, NULL, NULL), 0);
    CHECK(complete == 3);
    return 0;
}
