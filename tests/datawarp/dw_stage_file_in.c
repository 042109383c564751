/* Into missing folders, over an existing file, from a source that is not there, into no buffer. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *source = at(pfs, "source"), *target = at(buffer, "new/folder/target");
    put(source, "first");
    CHECK(!exists(target)); /* nobody may go on believing that */
    IS(dw_stage_file_in(target, source), 0);
    IS(dw_wait_file_stage(target), 0);
    CHECK(has(target, "first"));
    put(source, "second, and longer");
    IS(dw_stage_file_in(target, source), 0);
    IS(dw_wait_file_stage(target), 0);
    CHECK(has(target, "second, and longer"));

    const char *lost = at(buffer, "lost");
    IS(dw_stage_file_in(lost, at(pfs, "absent")), 0);
    IS(dw_wait_file_stage(lost), -ENOENT);
    IS(of_file(lost), 1);
    IS(dw_stage_file_in(at(pfs, "x"), source), -EINVAL);
    IS(dw_stage_file_in(NULL, source), -EINVAL);
    IS(dw_stage_file_in(target, NULL), -EINVAL);
    IS(dw_stage_file_in("", source), -ENOENT);
    IS(dw_terminate_file_stage(lost), 0);
    return 0;
}
