package finish

import (
	"debug/elf"
	"fmt"
	"slices"
	"strings"
)

// One file runs with the C library of every server that loads it: glibc from this version
// on, or musl. musl takes the name below for itself, and ignores versions of symbols.
const (
	cLibrary       = "libc.so.6"
	newestGlibc    = 34 // 2.34
	versionPattern = "GLIBC_2.%d"
)

// inMusl are names that musl 1.2.3 defines. TestMuslHasWhatIsImported looks them up where
// musl is installed. Most are imports of the Go runtime, which is not called, but the
// loader still resolves them.
var inMusl = strings.Fields(`
	abort bcmp clearenv clock_gettime __cxa_finalize __errno_location fprintf fputc fputs free fwrite
	malloc memchr memcmp memcpy memset mmap munmap nanosleep
	pthread_attr_destroy pthread_attr_getstack pthread_attr_getstacksize pthread_attr_init
	pthread_attr_setdetachstate pthread_cond_broadcast pthread_cond_wait pthread_create pthread_detach
	pthread_getattr_np pthread_getspecific pthread_key_create pthread_mutex_lock pthread_mutex_unlock
	pthread_self pthread_setspecific pthread_sigmask
	setegid setenv seteuid setgid setgroups setregid setresgid setresuid setreuid setuid
	sigaction sigaddset sigaltstack sigemptyset sigfillset sigismember
	__stack_chk_fail stderr strcasecmp strcmp strerror strlen unsetenv vfprintf
`)

// checkImports: every C library that the file may run with has its imports.
func (l *library) checkImports(options Options) error {
	libraries, err := l.ImportedLibraries()
	if err != nil {
		return err
	}
	if !slices.Equal(libraries, []string{cLibrary}) {
		return fmt.Errorf("it needs the libraries %v, not %s alone: a compiler that protects stacks asks for the loader "+
			"on arm64, see CGO_CFLAGS in scripts/compile.sh", libraries, cLibrary)
	}
	symbols, err := l.DynamicSymbols()
	if err != nil {
		return err
	}
	for _, symbol := range symbols {
		// A weak symbol may be missing, but its version may not.
		optional := elf.ST_BIND(symbol.Info) == elf.STB_WEAK && symbol.Version == ""
		hasName := func(start string) bool { return strings.HasPrefix(symbol.Name, start) }
		extra := slices.ContainsFunc(options.Imports, hasName)
		if symbol.Section != elf.SHN_UNDEF || optional || extra {
			continue
		}
		if !slices.Contains(inMusl, symbol.Name) {
			return fmt.Errorf("it imports %s, which is not on the list of what musl has: if musl has it, add it to inMusl; "+
				"if not, find the option that keeps the compiler from using it (-U_FORTIFY_SOURCE for names that end in _chk)",
				symbol.Name)
		}
		var minor int
		if _, err := fmt.Sscanf(symbol.Version, versionPattern, &minor); err != nil || minor > newestGlibc {
			return fmt.Errorf("it imports %s of version %q, and servers may have glibc 2.%d: "+
				"build on a system with an older glibc", symbol.Name, symbol.Version, newestGlibc)
		}
	}
	return nil
}
