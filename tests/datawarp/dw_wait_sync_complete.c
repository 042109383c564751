/* What was written is safe. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    int fd = open(at(buffer, "file"), O_CREAT | O_RDWR, 0644);
    CHECK(write(fd, "x", 1) == 1);
    IS(dw_wait_sync_complete(fd), 0);
    IS(dw_wait_sync_complete(-1), -EBADF);
    return 0;
}
