/* mixed_ways FILE SECONDS
 *
 * Threads write and read one file in every way at once, one way of writing each: pwrite, O_DIRECT, asynchronous O_DIRECT,
 * stores through a mapping, splice; and one asks for readahead and has it dropped all the time. Each writes pages of its
 * own, and looks at each page that it wrote in another way, at once. In the end the whole file is looked at.
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
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 1280, LEN = PAGES * PAGE, WAYS = 5 };
enum way { WRITE, DIRECT, ASYNCHRONOUS, STORE, SPLICE };

static const char *path, *const NAMES[WAYS] = { "pwrite", "direct", "asynchronous", "mapping", "splice" };
static int file, direct;
static unsigned char *map;
static atomic_bool over;
/* What each page holds, a number for each of its 8 bytes; its writer's alone. */
static uint64_t holds[PAGES];

static void fill(uint64_t *words, uint64_t number)
{
	for (size_t i = 0; i < PAGE / sizeof *words; i++)
		words[i] = number;
}

static void through_pipe(int page, unsigned char *bytes, int writes)
{
	int ends[2];
	loff_t at = (loff_t)page * PAGE;

	if (pipe(ends) != 0)
		err(1, "pipe");
	if (writes) {
		if (write(ends[1], bytes, PAGE) != PAGE || splice(ends[0], NULL, file, &at, PAGE, 0) != PAGE)
			err(1, "splice to page %d of %s", page, path);
	} else if (splice(file, &at, ends[1], NULL, PAGE, 0) != PAGE || read(ends[0], bytes, PAGE) != PAGE) {
		err(1, "splice from page %d of %s", page, path);
	}
	close(ends[0]);
	close(ends[1]);
}

static void asynchronously(int page, unsigned char *bytes, int writes)
{
	static _Thread_local aio_context_t context;
	struct iocb request = { .aio_lio_opcode = writes ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
				.aio_fildes = (uint32_t)direct, .aio_buf = (uintptr_t)bytes,
				.aio_nbytes = PAGE, .aio_offset = (int64_t)page * PAGE };
	struct iocb *list[] = { &request };
	struct io_event event;

	if (context == 0 && syscall(SYS_io_setup, 1, &context) != 0)
		err(1, "io_setup");
	if (syscall(SYS_io_submit, context, 1, list) != 1 || syscall(SYS_io_getevents, context, 1, 1, &event, NULL) != 1)
		err(1, "asynchronous I/O of page %d of %s", page, path);
	if (event.res != PAGE) {
		errno = event.res < 0 ? (int)-event.res : EIO;
		err(1, "asynchronous I/O of page %d of %s", page, path);
	}
}

/* Writes or reads one page. */
static void transfer(enum way way, int page, unsigned char *bytes, int writes)
{
	off_t at = (off_t)page * PAGE;
	int by = way == DIRECT ? direct : file;

	switch (way) {
	case WRITE:
	case DIRECT:
		if ((writes ? pwrite(by, bytes, PAGE, at) : pread(by, bytes, PAGE, at)) != PAGE)
			err(1, "%s of page %d of %s", NAMES[way], page, path);
		break;
	case ASYNCHRONOUS:
		return asynchronously(page, bytes, writes);
	case STORE:
		memcpy(writes ? map + at : bytes, writes ? bytes : map + at, PAGE);
		break;
	case SPLICE:
		return through_pipe(page, bytes, writes);
	}
}

static void look(enum way way, int page, unsigned char *bytes, const char *writer)
{
	transfer(way, page, bytes, 0);
	for (size_t i = 0; i < PAGE / sizeof(uint64_t); i++) {
		uint64_t seen = ((uint64_t *)bytes)[i];

		if (seen != holds[page])
			errx(1, "%s: page %d, byte %zu: %s has put %lu there, %s shows %lu", path, page,
			     i * sizeof seen, writer, holds[page], NAMES[way], seen);
	}
}

static void *work(void *argument)
{
	enum way way = (enum way)(long)argument;
	unsigned seed = (unsigned)way + 1;
	unsigned char *bytes;

	if (posix_memalign((void **)&bytes, PAGE, PAGE) != 0)
		err(1, "posix_memalign");
	for (uint64_t number = 1; !over; number++) {
		int page = rand_r(&seed) % (PAGES / WAYS) * WAYS + (int)way;

		fill((uint64_t *)bytes, number * WAYS + way);
		transfer(way, page, bytes, 1);
		holds[page] = number * WAYS + way;
		look((enum way)(rand_r(&seed) % WAYS), page, bytes, NAMES[way]);
	}
	return NULL;
}

static void *read_ahead(void *argument)
{
	unsigned seed = 99;

	while (!over) {
		off_t at = (off_t)(rand_r(&seed) % PAGES) * PAGE;

		posix_fadvise(file, at, 64 * PAGE, POSIX_FADV_WILLNEED);
		posix_fadvise(file, at, 256 * PAGE, POSIX_FADV_DONTNEED);
	}
	return argument;
}

int main(int count, char **arguments)
{
	pthread_t threads[WAYS + 1];
	unsigned char *bytes;

	if (count != 3 || posix_memalign((void **)&bytes, PAGE, PAGE) != 0)
		errx(2, "mixed_ways FILE SECONDS");
	path = arguments[1];
	file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (file < 0 || ftruncate(file, LEN) != 0)
		err(1, "make %s", path);
	direct = open(path, O_RDWR | O_DIRECT);
	map = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (direct < 0 || map == MAP_FAILED)
		err(1, "begin with %s", path);
	for (long way = 0; way < WAYS; way++)
		pthread_create(&threads[way], NULL, work, (void *)way);
	pthread_create(&threads[WAYS], NULL, read_ahead, NULL);
	nanosleep(&(struct timespec){ .tv_sec = strtol(arguments[2], NULL, 10) }, NULL);
	over = 1;
	for (int i = 0; i <= WAYS; i++)
		pthread_join(threads[i], NULL);
	for (int page = 0; page < PAGES; page++)
		for (int way = 0; way < WAYS; way++)
			look((enum way)way, page, bytes, NAMES[page % WAYS]);
	return 0;
}
