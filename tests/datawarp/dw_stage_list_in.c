/* Files that keep their names, into a folder that must be there. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *files[] = {at(pfs, "a"), at(pfs, "b"), NULL}, *none[] = {NULL};
    const char *target = at(buffer, "target");
    put(files[0], "a");
    put(files[1], "b");
    IS(dw_stage_list_in(target, files), -ENOENT);
    CHECK(mkdir(target, 0755) == 0);
    IS(dw_stage_list_in(target, files), 0);
    const char *staged[] = {at(target, "a"), at(target, "b"), NULL};
    IS(dw_wait_list_stage(staged), 0);
    CHECK(has(staged[0], "a") && has(staged[1], "b"));
    IS(dw_stage_list_in(target, none), -EINVAL);
    IS(dw_stage_list_in(target, NULL), -EINVAL);
    return 0;
}
