/* The same key, the same folder; it is the caller's to free. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    char *one = dw_get_mds_path(buffer, 7), *two = dw_get_mds_path(buffer, 7);
    CHECK(one != NULL && two != NULL && one != two && strcmp(one, two) == 0);
    put(at(one, "file"), "x");
    CHECK(has(at(two, "file"), "x"));
    free(one);
    free(two);
    CHECK(dw_get_mds_path(pfs, 7) == NULL);
    CHECK(dw_get_mds_path(NULL, 7) == NULL);
    return 0;
}
