package finish

import (
	"bytes"
	"debug/buildinfo"
	"debug/dwarf"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// checkSettings: the Go code runs on every processor, and the Go compiler left out no check.
func (l *library) checkSettings() error {
	info, err := buildinfo.Read(bytes.NewReader(l.content))
	if err != nil {
		return err
	}
	level := ""
	for _, setting := range info.Settings {
		switch setting.Key {
		case l.level:
			level = setting.Value
		case "-gcflags", "-asmflags":
			if !harmless.MatchString(setting.Value) {
				return fmt.Errorf("it was built with %s=%s, and flags may take away the checks that are relied on: "+
					"only -l is known to be harmless, see GOFLAGS, too", setting.Key, setting.Value)
			}
		}
	}
	if level != l.lowest {
		return fmt.Errorf("it was not built with %s=%s: nobody checks the processor when it is loaded", l.level, l.lowest)
	}
	return nil
}

// harmless matches the compiler's flags against inlining, with an optional pattern of
// packages before them.
var harmless = regexp.MustCompile(`^([^ =-][^ =]*=)?( *-l *)?$`)

// checkCompiler: of several -gcflags, the file names only the last. But the compiler
// records its flags in the debugging information.
func (l *library) checkCompiler() error {
	data, err := l.DWARF()
	if err != nil {
		return fmt.Errorf("the flags of the compiler, in debugging information, cannot be read: "+
			"build without -ldflags=-w: %w", err)
	}
	for units := data.Reader(); ; units.SkipChildren() {
		unit, err := units.Next()
		if unit == nil || err != nil {
			return err
		}
		name, _ := unit.Val(dwarf.AttrName).(string)
		producer, _ := unit.Val(dwarf.AttrProducer).(string)
		if strings.HasPrefix(name, project) && slices.Contains(strings.Fields(producer), "-B") {
			return fmt.Errorf("package %s was compiled with -B, without checks of bounds: see -gcflags and GOFLAGS", name)
		}
	}
}

// checkInitializers: nothing runs the code that a package would run before main, even if it
// is meant for a variable of another package.
func (l *library) checkInitializers() error {
	var problems []error
	for _, symbol := range l.symbols {
		if match := initializer.FindStringSubmatch(symbol.Name); match != nil {
			problems = append(problems,
				fmt.Errorf("package %s has an initializer, %s, which never runs", match[1], symbol.Name))
		}
	}
	return errors.Join(problems...)
}

// initializer matches what the Go compiler makes of functions init and of computed values.
var initializer = regexp.MustCompile(
	`^(main|` + regexp.QuoteMeta(project) + `[^.]*)\.(init|\.inittask|(?:map\.)?init\.\d+)$`)
