/* Size, width and first index of a file; none elsewhere. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    int fd = open(at(buffer, "file"), O_CREAT | O_RDWR, 0644);
    int other = open(at(pfs, "file"), O_CREAT | O_RDWR, 0644);
    int size = -1, width = -1, index = -1;
    IS(dw_get_stripe_configuration(fd, &size, &width, &index), 0);
    CHECK(size > 0 && size % 4096 == 0 && width >= 1 && index >= 0 && index < width);
    IS(dw_get_stripe_configuration(fd, NULL, NULL, NULL), 0);
    IS(dw_get_stripe_configuration(other, &size, &width, &index), -ENODATA);
    IS(dw_get_stripe_configuration(-1, &size, &width, &index), -EBADF);
    return 0;
}
