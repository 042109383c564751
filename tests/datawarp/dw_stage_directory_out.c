/* Asked for by a process that ends; seen and waited for by another. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *folder = at(buffer, "folder"), *target = at(pfs, "target");
    CHECK(mkdir(folder, 0755) == 0 && mkdir(at(folder, "sub"), 0755) == 0 && mkdir(target, 0755) == 0);
    put(at(folder, "a"), "a");
    put(at(folder, "sub/b"), "b");
    if (fork() == 0)
        _exit(dw_stage_directory_out(folder, target, DW_STAGE_AT_JOB_END) == 0 ? 0 : 1);
    int status, deferred = 0;
    CHECK(wait(&status) > 0 && status == 0);
    IS(dw_query_directory_stage(folder, NULL, NULL, &deferred, NULL), 0);
    CHECK(deferred > 0);
    IS(dw_stage_directory_out(folder, NULL, DW_ACTIVATE_DEFERRED_STAGE), 0);
    IS(dw_wait_directory_stage(folder), 0);
    CHECK(has(at(target, "a"), "a") && has(at(target, "sub/b"), "b"));
    IS(dw_stage_directory_out(at(folder, "a"), target, DW_STAGE_IMMEDIATE), -ENOTDIR);
    IS(dw_stage_directory_out(folder, NULL, DW_REVOKE_STAGE_AT_JOB_END), -EINVAL);
    return 0;
}
