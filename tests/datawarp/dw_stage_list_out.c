/* Files of several folders to one. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    CHECK(mkdir(at(buffer, "sub"), 0755) == 0);
    const char *files[] = {at(buffer, "a"), at(buffer, "sub/b"), NULL};
    put(files[0], "a");
    put(files[1], "b");
    IS(dw_stage_list_out(files, pfs, DW_STAGE_AT_JOB_END), 0);
    IS(dw_stage_list_out(files, NULL, DW_REVOKE_STAGE_AT_JOB_END), 0);
    IS(dw_stage_list_out(files, pfs, DW_STAGE_IMMEDIATE), 0);
    IS(dw_wait_list_stage(files), 0);
    CHECK(has(at(pfs, "a"), "a") && has(at(pfs, "b"), "b"));
    const char *folder[] = {files[0], at(buffer, "sub"), NULL}, *outside[] = {files[0], at(pfs, "a"), NULL};
    IS(dw_stage_list_out(folder, pfs, DW_STAGE_IMMEDIATE), -EISDIR);
    IS(dw_stage_list_out(outside, pfs, DW_STAGE_IMMEDIATE), -EINVAL);
    return 0;
}
