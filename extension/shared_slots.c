/*
 * shared_slots.c
 *		Files below /dev/shm: /dev/shm/tipple_direct.NAMESPACE.PID.START.RANDOM/SECRET
 *
 * The directory, which every user can see, says which process made it: PID namespace, PID and start time, so that a
 * later backend can tell whether that process is gone. It can be passed but not listed by others (0711). The name of
 * the file in it is 128 random bits, told to the session alone, and the file is open to who knows it (0666).
 */
#include "postgres.h"

#include "shared_slots.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/fd.h"

#define SHARED_MEMORY	"/dev/shm"
#define PREFIX			"tipple_direct."
#define SECRET_BYTES	16

/* Of what is free: parallel queries need the rest. */
#define LARGEST_SHARE	4

struct SharedSlots
{
	char	   *directory;
	char	   *path;
	bool		linked;
	char	   *memory;
	size_t		bytes;
	size_t		slot_bytes;
	struct sigaction before;	/* what a bus error did without us */
};

/* Where a bus error goes: set only while a slot is copied. */
static sigjmp_buf *volatile copying = NULL;

static void
at_bus_error(int signal)
{
	if (copying != NULL)
		siglongjmp(*copying, 1);
	/* Not ours: it happens again on return, and then does what it should. */
	(void) sigaction(signal, &(struct sigaction) {.sa_handler = SIG_DFL}, NULL);
}

static void
catch_bus_errors(SharedSlots *shared)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = at_bus_error;
	/* Not blocked in its handler, which is left by a jump. */
	action.sa_flags = SA_NODEFER;
	(void) sigaction(SIGBUS, &action, &shared->before);
}

/* When a process started, in the kernel's ticks since the machine did; 0 and an error number if that cannot be read. */
static unsigned long long
process_start(long pid)
{
	char		path[64];
	char		line[1024];
	const char *field;
	FILE	   *file;
	size_t		length;
	unsigned long long start = 0;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	file = AllocateFile(path, "r");
	if (file == NULL)
		return 0;
	length = fread(line, 1, sizeof(line) - 1, file);
	FreeFile(file);
	line[length] = '\0';
	/* The second field is the program's name in parentheses, and may hold anything. The start is field 22. */
	field = strrchr(line, ')');
	for (int i = 2; field != NULL && i < 22; i++)
		field = strchr(field + 1, ' ');
	if (field != NULL)
		start = strtoull(field + 1, NULL, 10);
	return start;
}

static unsigned long
pid_namespace(void)
{
	struct stat status;

	return stat("/proc/self/ns/pid", &status) == 0 ? (unsigned long) status.st_ino : 0;
}

static void
remove_directory_at(int parent, const char *name)
{
	int			fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat status;
	DIR		   *directory;
	struct dirent *entry;

	if (fd < 0)
		return;
	if (fstat(fd, &status) != 0 || status.st_uid != geteuid() || (directory = fdopendir(fd)) == NULL)
	{
		close(fd);
		return;
	}
	while ((entry = readdir(directory)) != NULL)
	{
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			(void) unlinkat(fd, entry->d_name, 0);
	}
	closedir(directory);
	(void) unlinkat(parent, name, AT_REMOVEDIR);
}

/* Removes the directories of processes that are no more. Those of other users and other namespaces are not ours. */
static void
remove_stale_directories(void)
{
	DIR		   *directory = opendir(SHARED_MEMORY);
	struct dirent *entry;
	unsigned long namespace_here = pid_namespace();

	if (directory == NULL)
		return;
	while ((entry = readdir(directory)) != NULL)
	{
		unsigned long namespace_there;
		long		pid;
		unsigned long long start;
		unsigned long long now;

		if (sscanf(entry->d_name, PREFIX "%lu.%ld.%llu.", &namespace_there, &pid, &start) != 3 ||
			namespace_there != namespace_here || pid == (long) MyProcPid)
			continue;
		errno = 0;
		now = process_start(pid);
		if (now != start && (now != 0 || errno == ENOENT || errno == ESRCH))
			remove_directory_at(dirfd(directory), entry->d_name);
	}
	closedir(directory);
}

static char *
random_name(void)
{
	uint8		bytes[SECRET_BYTES];
	char	   *name = palloc(2 * SECRET_BYTES + 1);

	if (!pg_strong_random(bytes, sizeof(bytes)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random bytes")));
	for (int i = 0; i < SECRET_BYTES; i++)
		snprintf(name + 2 * i, 3, "%02x", bytes[i]);
	return name;
}

/* Makes the file and maps it. Returns 0 or an error number; a file that was made is linked. */
static int
make_file(SharedSlots *shared)
{
	int			fd = OpenTransientFile(shared->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
	int			error;
	void	   *memory;

	if (fd < 0)
		return errno;
	/* The space is reserved now, so that nobody runs out of it in the middle. The umask does not count for chmod. */
	error = posix_fallocate(fd, 0, shared->bytes);
	if (error == 0 && (fchmod(fd, 0666) != 0 || chmod(shared->directory, 0711) != 0))
		error = errno;
	if (error == 0)
	{
		memory = mmap(NULL, shared->bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
		if (memory == MAP_FAILED)
			error = errno;
		else
			shared->memory = memory;
	}
	(void) CloseTransientFile(fd);
	return error;
}

/* Whether so much may be taken of the memory that all backends share. */
static bool
has_room(size_t bytes)
{
	struct statvfs status;

	return statvfs(SHARED_MEMORY, &status) == 0 && bytes <= (uint64) status.f_bavail * status.f_frsize / LARGEST_SHARE;
}

SharedSlots *
make_shared_slots(int slots, size_t slot_bytes)
{
	SharedSlots *shared = palloc0(sizeof(SharedSlots));
	int			error;

	remove_stale_directories();
	shared->slot_bytes = slot_bytes;
	shared->bytes = slots * slot_bytes;
	shared->directory = psprintf("%s/" PREFIX "%lu.%ld.%llu.%.16s", SHARED_MEMORY, pid_namespace(), (long) MyProcPid,
								 process_start(MyProcPid), random_name());
	shared->path = psprintf("%s/%s", shared->directory, random_name());
	if (!has_room(shared->bytes))
	{
		ereport(DEBUG1, (errmsg("no shared memory: less than %zu bytes are to be had of it", shared->bytes)));
		return NULL;
	}
	if (mkdir(shared->directory, 0700) != 0)
	{
		ereport(DEBUG1, (errmsg("no shared memory: could not create directory \"%s\": %m", shared->directory)));
		return NULL;
	}
	shared->linked = true;
	error = make_file(shared);
	if (error != 0)
	{
		unlink_shared_slots(shared);
		errno = error;
		ereport(DEBUG1, (errmsg("no shared memory: could not create file \"%s\": %m", shared->path)));
		return NULL;
	}
	catch_bus_errors(shared);
	return shared;
}

const char *
shared_slots_path(const SharedSlots *shared)
{
	return shared->path;
}

const char *
slot_memory(const SharedSlots *shared, int slot)
{
	return shared->memory + slot * shared->slot_bytes;
}

void
read_slot(SharedSlots *shared, int slot, size_t offset, char *target, size_t bytes)
{
	const char *source = slot_memory(shared, slot) + offset;
	sigjmp_buf	bus_error;

	if (sigsetjmp(bus_error, 0) != 0)
	{
		copying = NULL;
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("slot %d of the shared memory is cut short", slot),
				 errhint("The client has truncated the file that it shares with the server.")));
	}
	copying = &bus_error;
	memcpy(target, source, bytes);
	copying = NULL;
}

void
unlink_shared_slots(SharedSlots *shared)
{
	if (!shared->linked)
		return;
	shared->linked = false;
	(void) unlink(shared->path);
	(void) rmdir(shared->directory);
}

void
close_shared_slots(SharedSlots *shared)
{
	unlink_shared_slots(shared);
	(void) sigaction(SIGBUS, &shared->before, NULL);
	(void) munmap(shared->memory, shared->bytes);
}
