/* The contents into a folder that must be there, without a level more. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *source = at(pfs, "source"), *target = at(buffer, "target");
    CHECK(mkdir(source, 0755) == 0 && mkdir(at(source, "sub"), 0755) == 0);
    put(at(source, "a"), "a");
    put(at(source, "sub/b"), "b");
    IS(dw_stage_directory_in(target, source), -ENOENT);
    CHECK(mkdir(target, 0755) == 0);
    CHECK(!exists(at(target, "a")));
    IS(dw_stage_directory_in(target, source), 0);
    IS(dw_wait_directory_stage(target), 0);
    CHECK(has(at(target, "a"), "a") && has(at(target, "sub/b"), "b"));
    put(at(buffer, "file"), "");
    IS(dw_stage_directory_in(at(buffer, "file"), source), -ENOTDIR);
    IS(dw_stage_directory_in(pfs, source), -EINVAL);
    return 0;
}
