package finish

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// decodeAMD64 reads from the text of each instruction, which has only numbers, where it
// leads and which memory it refers to.
func decodeAMD64(lines []line) ([]instruction, error) {
	var code []instruction
	for _, line := range lines {
		i := instruction{address: line.address, text: line.text}
		if err := i.flowAMD64(); err != nil {
			return nil, err
		}
		if i.kind == plain {
			if err := i.referencesAMD64(i.address + uint64(len(line.bytes))); err != nil {
				return nil, err
			}
		}
		code = append(code, i)
	}
	return code, nil
}

var (
	direct      = regexp.MustCompile(`^(j[a-z]+|callq?|loop[a-z]*) 0x([0-9a-f]+)$`)
	anywhere    = regexp.MustCompile(`(^| )(jmp|call)[a-z]* \*`)
	plainReturn = regexp.MustCompile(`^(repz )?retq$`)
	// The names of all instructions that do not simply go on to the next, behind any prefixes.
	controls = regexp.MustCompile(`(^| )(j|l?call|l?jmp|loop|xbegin|xabort|l?ret|iret|int|icebp|` +
		`syscall|sysenter|sysexit|sysret|ud|hlt)`)

	relativeToIP = regexp.MustCompile(`(-?0x[0-9a-f]+|\b0)?\(%[re]ip\)`)
	// Memory that no register points to: 0x12(,%rax,8), or a number without $.
	addressesAlone = regexp.MustCompile(`\(,|[ ,:]-?0x[0-9a-f]+(,|$)`)
)

// flowAMD64 sets the kind and the target.
func (i *instruction) flowAMD64() (err error) {
	if match := direct.FindStringSubmatch(i.text); match != nil {
		i.kind = branch
		if strings.HasPrefix(match[1], "jmp") {
			i.kind = jump
		}
		i.target, err = strconv.ParseUint(match[2], 16, 64)
		return err
	}
	switch {
	case plainReturn.MatchString(i.text):
		i.kind = back
	case anywhere.MatchString(i.text):
		i.kind = indirect
	case controls.MatchString(i.text):
		i.kind = trap
	}
	return nil
}

// referencesAMD64 sets the addresses that the instruction before next refers to.
func (i *instruction) referencesAMD64(next uint64) error {
	for _, match := range relativeToIP.FindAllStringSubmatch(i.text, -1) {
		// Numbers below 0 are printed as if they had no sign.
		offset, err := strconv.ParseInt(match[1], 0, 64)
		if err != nil || offset != int64(int32(offset)) && offset != int64(uint32(offset)) {
			return fmt.Errorf("%q refers to something that cannot be read", i.text)
		}
		i.references = append(i.references, next+uint64(int64(int32(offset))))
	}
	if addressesAlone.MatchString(i.text) && !strings.HasPrefix(i.text, "lea") { // lea only computes
		i.problem = "refers to an address that is relative to nothing"
	}
	return nil
}
