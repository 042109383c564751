/* Of the files of the list. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *files[] = {at(buffer, "a"), at(buffer, "b"), NULL};
    put(files[0], "a");
    put(files[1], "b");
    IS(dw_stage_list_out(files, pfs, DW_STAGE_AT_JOB_END), 0);
    IS(dw_terminate_list_stage(files), 0);
    IS(of_file(files[0]) + of_file(files[1]), 0);
    IS(dw_terminate_list_stage(files), -EINVAL);
    return 0;
}
