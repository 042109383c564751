/* completed_writes FILE ROUNDS
 *
 * One thread writes a file again and again with asynchronous O_DIRECT writes. Once one is complete, nobody reads what was
 * there before: neither by read, beside two threads that read the file all the time, nor through a mapping. The readers
 * open it first.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PIECE = 64 << 10, PIECES = 10, LEN = PIECE * PIECES, READERS = 2 };

static const char *path;
static const uint64_t *map;
static atomic_bool over;
/* The number that each piece has at least. */
static _Atomic uint64_t complete[PIECES];

static void look(const uint64_t *words, uint64_t least, int piece, const char *where)
{
	for (size_t i = 0; i < PIECE / sizeof *words; i++)
		if (words[i] < least)
			errx(1, "%s: %s shows round %lu at byte %zu of piece %d when round %lu was complete", path, where,
			     words[i], i * sizeof *words, piece, least);
}

static void *read_on(void *argument)
{
	int file = (int)(long)argument;
	uint64_t *bytes = malloc(PIECE);

	while (!over)
		for (int piece = 0; piece < PIECES; piece++) {
			uint64_t least = complete[piece];

			if (pread(file, bytes, PIECE, (off_t)piece * PIECE) != PIECE)
				err(1, "pread %s", path);
			look(bytes, least, piece, "read");
		}
	free(bytes);
	return NULL;
}

static void write_round(aio_context_t context, int file, uint64_t **bytes, uint64_t number)
{
	struct iocb requests[PIECES], *list[PIECES];
	struct io_event events[PIECES];

	memset(requests, 0, sizeof requests);
	for (int piece = 0; piece < PIECES; piece++) {
		for (size_t i = 0; i < PIECE / sizeof **bytes; i++)
			bytes[piece][i] = number;
		requests[piece].aio_lio_opcode = IOCB_CMD_PWRITE;
		requests[piece].aio_fildes = (uint32_t)file;
		requests[piece].aio_buf = (uintptr_t)bytes[piece];
		requests[piece].aio_nbytes = PIECE;
		requests[piece].aio_offset = (int64_t)piece * PIECE;
		requests[piece].aio_data = (uint64_t)piece;
		list[piece] = &requests[piece];
	}
	if (syscall(SYS_io_submit, context, PIECES, list) != PIECES)
		err(1, "io_submit %s", path);
	for (int done = 0; done < PIECES;) {
		long some = syscall(SYS_io_getevents, context, 1, PIECES, events, NULL);

		if (some < 1)
			err(1, "io_getevents %s", path);
		for (int i = 0; i < some; i++) {
			if (events[i].res != PIECE) {
				errno = events[i].res < 0 ? (int)-events[i].res : EIO;
				err(1, "write piece %llu of %s", events[i].data, path);
			}
			complete[events[i].data] = number;
			look(map + events[i].data * (PIECE / sizeof *map), number, (int)events[i].data, "the mapping");
		}
		done += (int)some;
	}
}

int main(int count, char **arguments)
{
	uint64_t *bytes[PIECES];
	aio_context_t context = 0;
	pthread_t readers[READERS];

	if (count != 3)
		errx(2, "completed_writes FILE ROUNDS");
	path = arguments[1];
	int made = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (made < 0 || ftruncate(made, LEN) != 0 || close(made) != 0)
		err(1, "make %s", path);
	for (long i = 0; i < READERS; i++) {
		long file = open(path, O_RDONLY);

		if (file < 0)
			err(1, "open %s", path);
		pthread_create(&readers[i], NULL, read_on, (void *)file);
	}
	int file = open(path, O_RDWR | O_DIRECT);
	map = mmap(NULL, LEN, PROT_READ, MAP_SHARED, file, 0);
	if (file < 0 || map == MAP_FAILED || syscall(SYS_io_setup, PIECES, &context) != 0)
		err(1, "begin with %s", path);
	for (int piece = 0; piece < PIECES; piece++)
		if (posix_memalign((void **)&bytes[piece], 4096, PIECE) != 0)
			err(1, "posix_memalign");
	for (uint64_t number = 1; number <= strtoul(arguments[2], NULL, 10); number++)
		write_round(context, file, bytes, number);
	over = 1;
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	return 0;
}
