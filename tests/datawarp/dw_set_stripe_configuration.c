/* A valid wish for a new file or a folder is taken; others are not. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    int fd = open(at(buffer, "file"), O_CREAT | O_RDWR, 0644);
    IS(dw_set_stripe_configuration(fd, 8 << 20, 1), 0);
    IS(dw_set_stripe_configuration(fd, 0, 1), -EINVAL);
    IS(dw_set_stripe_configuration(fd, 4097, 1), -EINVAL);
    IS(dw_set_stripe_configuration(fd, 4096, 0), -EINVAL);
    CHECK(write(fd, "x", 1) == 1);
    IS(dw_set_stripe_configuration(fd, 8 << 20, 1), -EINVAL);
    int folder = open(buffer, O_RDONLY | O_DIRECTORY), other = open(pfs, O_RDONLY | O_DIRECTORY);
    IS(dw_set_stripe_configuration(folder, 8 << 20, 1), 0);
    IS(dw_set_stripe_configuration(other, 8 << 20, 1), -ENODATA);
    IS(dw_set_stripe_configuration(-1, 8 << 20, 1), -EBADF);
    return 0;
}
