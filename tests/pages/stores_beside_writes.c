/* stores_beside_writes FILE KINDS ROUNDS
 *
 * Threads fill the same pages of a new file at the same time, each its own eighth of every page: one thread for each letter
 * of KINDS, at most eight. Each looks at once at what it did from the other side, and in the end everything is looked at
 * from both sides.
 *
 * s: stores through a shared mapping      w: pwrite            d: pwrite with O_DIRECT
 * a: asynchronous O_DIRECT, many at once  p: punches a hole    c: stores half, and writes that from the mapping to the other half
 * h: stores into all pages, again and again, as fast as it can, until the others are done
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

enum { PAGE = 4096, SLOT = 512, PAGES = 256, LEN = PAGES * PAGE, AT_ONCE = 64 };

static const char *path, *kinds;
static int file, direct;
static unsigned char *map;
static pthread_barrier_t begin;
static int round_number;
/* Threads that are no h and not done. */
static atomic_int busy;

static int wanted(int page, int thread)
{
	return kinds[thread] == 'p' ? 0 : 1 + (thread * PAGES + page + round_number) % 255;
}

static void expect(const unsigned char *seen, int page, int thread, const char *where)
{
	for (int i = 0; i < SLOT; i++)
		if (seen[i] != wanted(page, thread))
			errx(1, "%s, round %d: page %d lacks what thread %d (%c of %s) put there: %d instead of %d, seen by %s",
			     path, round_number, page, thread, kinds[thread], kinds, seen[i], wanted(page, thread), where);
}

static void expect_in_mapping(int page, int thread)
{
	expect(map + page * PAGE + thread * SLOT, page, thread, "the mapping after it was written");
}

static void expect_in_file(int page, int thread)
{
	unsigned char seen[SLOT];

	if (pread(file, seen, SLOT, (off_t)page * PAGE + thread * SLOT) != SLOT)
		err(1, "pread %s", path);
	expect(seen, page, thread, "pread after the store");
}

/* Fills one page's slot; `bytes` are the thread's, aligned for O_DIRECT. */
static void fill_slot(int page, int thread, unsigned char *bytes)
{
	off_t at = (off_t)page * PAGE + thread * SLOT;
	ssize_t done = SLOT;

	memset(bytes, wanted(page, thread), SLOT);
	switch (kinds[thread]) {
	case 's':
		memcpy(map + at, bytes, SLOT);
		return expect_in_file(page, thread);
	case 'c':
		memcpy(map + at, bytes, SLOT / 2);
		done = SLOT / 2 + pwrite(file, map + at, SLOT / 2, at + SLOT / 2);
		break;
	case 'w':
		done = pwrite(file, bytes, SLOT, at);
		break;
	case 'd':
		done = pwrite(direct, bytes, SLOT, at);
		break;
	case 'p':
		if (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, SLOT) != 0)
			err(1, "punch a hole into %s", path);
		break;
	default:
		errx(2, "no kind %c", kinds[thread]);
	}
	if (done != SLOT)
		err(1, "write %s", path);
	expect_in_mapping(page, thread);
}

static void write_at_once(aio_context_t context, int first, int thread, unsigned char *bytes)
{
	struct iocb requests[AT_ONCE], *list[AT_ONCE];
	struct io_event events[AT_ONCE];

	memset(requests, 0, sizeof requests);
	for (int i = 0; i < AT_ONCE; i++) {
		memset(bytes + i * SLOT, wanted(first + i, thread), SLOT);
		requests[i].aio_lio_opcode = IOCB_CMD_PWRITE;
		requests[i].aio_fildes = (uint32_t)direct;
		requests[i].aio_buf = (uintptr_t)(bytes + i * SLOT);
		requests[i].aio_nbytes = SLOT;
		requests[i].aio_offset = (int64_t)(first + i) * PAGE + thread * SLOT;
		requests[i].aio_data = (uint64_t)(first + i);
		list[i] = &requests[i];
	}
	if (syscall(SYS_io_submit, context, AT_ONCE, list) != AT_ONCE)
		err(1, "io_submit %s", path);
	if (syscall(SYS_io_getevents, context, AT_ONCE, AT_ONCE, events, NULL) != AT_ONCE)
		err(1, "io_getevents %s", path);
	for (int i = 0; i < AT_ONCE; i++) {
		errno = events[i].res < 0 ? (int)-events[i].res : EIO;
		if (events[i].res != SLOT)
			err(1, "write page %llu of %s", events[i].data, path);
		expect_in_mapping((int)events[i].data, thread);
	}
}

static void store_on(int thread)
{
	do
		for (int page = 0; page < PAGES; page++)
			memset(map + page * PAGE + thread * SLOT, wanted(page, thread), SLOT);
	while (busy > 0);
}

static void *fill(void *argument)
{
	int thread = (int)(long)argument;
	aio_context_t context = 0;
	void *bytes;

	if (posix_memalign(&bytes, PAGE, AT_ONCE * SLOT) != 0 || syscall(SYS_io_setup, AT_ONCE, &context) != 0)
		err(1, "prepare");
	pthread_barrier_wait(&begin);
	if (kinds[thread] == 'h')
		store_on(thread);
	else if (kinds[thread] == 'a')
		for (int first = 0; first < PAGES; first += AT_ONCE)
			write_at_once(context, first, thread, bytes);
	else
		for (int page = 0; page < PAGES; page++)
			fill_slot(page, thread, bytes);
	busy -= kinds[thread] != 'h';
	syscall(SYS_io_destroy, context);
	free(bytes);
	return NULL;
}

static void look_at_all(const unsigned char *all, const char *where)
{
	for (int page = 0; page < PAGES; page++)
		for (int thread = 0; kinds[thread]; thread++)
			expect(all + page * PAGE + thread * SLOT, page, thread, where);
}

static void make(void)
{
	static unsigned char before[LEN];
	/* Every other file is a hole in the beginning, and every other two are opened by who only reads first. */
	int full = round_number & 1, reader = -1;

	unlink(path);
	file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	memset(before, 0xee, LEN);
	if (file < 0 || (full ? pwrite(file, before, LEN, 0) : ftruncate(file, LEN)) < 0)
		err(1, "make %s", path);
	if (round_number & 2) {
		close(file);
		reader = open(path, O_RDONLY);
		if (pread(reader, before, LEN, 0) != LEN)
			err(1, "read %s", path);
		file = open(path, O_RDWR);
	}
	direct = open(path, O_RDWR | O_DIRECT);
	if (file < 0 || direct < 0)
		err(1, "open %s", path);
	close(reader);
	map = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (map == MAP_FAILED)
		err(1, "mmap %s", path);
}

static void one_round(void)
{
	static unsigned char all[LEN];
	pthread_t threads[8];
	unsigned count = (unsigned)strlen(kinds);

	make();
	busy = 0;
	for (unsigned i = 0; i < count; i++)
		busy += kinds[i] != 'h';
	pthread_barrier_init(&begin, NULL, count);
	for (long i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, fill, (void *)i);
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	look_at_all(map, "the mapping");
	if (msync(map, LEN, MS_SYNC) != 0 || munmap(map, LEN) != 0)
		err(1, "msync %s", path);
	if (pread(file, all, LEN, 0) != LEN)
		err(1, "pread %s", path);
	look_at_all(all, "pread in the end");
	close(file);
	close(direct);
	file = open(path, O_RDONLY);
	if (file < 0 || pread(file, all, LEN, 0) != LEN)
		err(1, "read %s again", path);
	look_at_all(all, "who opens it again");
	close(file);
}

int main(int count, char **arguments)
{
	if (count != 4 || strlen(arguments[2]) > 8)
		errx(2, "stores_beside_writes FILE KINDS ROUNDS");
	path = arguments[1];
	kinds = arguments[2];
	for (round_number = 0; round_number < atoi(arguments[3]); round_number++)
		one_round();
	return 0;
}
