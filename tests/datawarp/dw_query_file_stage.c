/* Every state; any of the places may be NULL. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *file = at(buffer, "file");
    put(file, "x");
    IS(of_file(file), 0);
    IS(dw_stage_file_out(file, at(pfs, "file"), DW_STAGE_AT_JOB_END), 0);
    IS(of_file(file), 10);
    IS(dw_stage_file_out(file, NULL, DW_ACTIVATE_DEFERRED_STAGE), 0);
    int complete = 0;
    while (complete == 0) {
        int pending = 0;
        IS(dw_query_file_stage(file, &complete, &pending, NULL, NULL), 0);
        CHECK(complete + pending == 1);
    }
    IS(of_file(file), 1000);
    IS(dw_query_file_stage(at(pfs, "file"), NULL, NULL, NULL, NULL), -EINVAL);
    return 0;
}
