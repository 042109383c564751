/* Now, again with later writes, at the job's end, revoked, activated. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *file = at(buffer, "file"), *target = at(pfs, "file");
    int fd = open(file, O_CREAT | O_WRONLY, 0640);
    CHECK(write(fd, "first", 5) == 5);
    IS(dw_stage_file_out(file, target, DW_STAGE_IMMEDIATE), 0); /* while it is open */
    IS(dw_wait_file_stage(file), 0);
    CHECK(has(target, "first"));
    CHECK(write(fd, " and later", 10) == 10 && close(fd) == 0);
    IS(dw_stage_file_out(file, target, DW_STAGE_IMMEDIATE), 0);
    IS(dw_wait_file_stage(file), 0);
    CHECK(has(target, "first and later"));

    const char *later = at(buffer, "later");
    put(later, "at the end");
    IS(dw_stage_file_out(later, NULL, DW_REVOKE_STAGE_AT_JOB_END), -EINVAL);
    IS(dw_stage_file_out(later, at(pfs, "later"), DW_STAGE_AT_JOB_END), 0);
    IS(of_file(later), 10);
    IS(dw_stage_file_out(later, NULL, DW_REVOKE_STAGE_AT_JOB_END), 0);
    IS(of_file(later), 0);
    IS(dw_stage_file_out(later, at(pfs, "later"), DW_STAGE_AT_JOB_END), 0);
    IS(dw_stage_file_out(later, NULL, DW_ACTIVATE_DEFERRED_STAGE), 0);
    IS(dw_wait_file_stage(later), 0);
    CHECK(has(at(pfs, "later"), "at the end"));
    const char *last = at(buffer, "last");
    put(last, "after the job");
    IS(dw_stage_file_out(last, at(pfs, "last"), DW_STAGE_AT_JOB_END), 0); /* whoever runs this looks for it */
    CHECK(!exists(at(pfs, "last")));

    IS(dw_stage_file_out(at(buffer, "absent"), target, DW_STAGE_IMMEDIATE), -ENOENT);
    IS(dw_stage_file_out(buffer, target, DW_STAGE_IMMEDIATE), -EISDIR);
    IS(dw_stage_file_out(target, target, DW_STAGE_IMMEDIATE), -EINVAL);
    IS(dw_stage_file_out(file, NULL, DW_STAGE_IMMEDIATE), -EINVAL);
    IS(dw_stage_file_out(file, target, 7), -EINVAL);
    return 0;
}
