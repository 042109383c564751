/* The account of the buffer; it is the caller's to free. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    int err = 1;
    char *text = dw_get_accounting_data_json(buffer, &err);
    CHECK(text != NULL && err == 0);
    CHECK(strstr(text, "\"capacity_bytes\":") && strstr(text, "\"used_bytes\":") && strstr(text, "\"nodes\":["));
    free(text);
    CHECK(dw_get_accounting_data_json(pfs, &err) == NULL && err == -EINVAL);
    return 0;
}
