package module

// A refusal is an error reply before it is put into words. The zero refusal
// means that there is none.
type refusal struct {
	reason        string
	value         string // what the client sent instead, if that helps
	showArguments bool   // the arguments are fine one by one, but not together
}

// What an error reply begins with. Redis words the WRONGTYPE line itself
// everywhere else, so it must read the same here.
const (
	badCapacity          = "capacity must be an integer from 1 to 9223372036854775807"
	badCapacityRedisCell = "capacity must be an integer from 0 to 9223372036854775807"
	badCount             = "count must be an integer from 1 to 9223372036854775807"
	badPeriod            = "period must be seconds above 0, at most 9223372036.854775807 and with up to 9 fraction digits"
	badQuantity          = "quantity must be an integer from 0 to 9223372036854775807"

	wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

	// The value is left out on purpose: it is somebody's data.
	noFunnel = "the key does not hold a funnel: its value is not an integer from 0 to 9223372036854775807"
)

// longestValue is how much of a wrong argument an error repeats, in bytes.
const longestValue = 40

// appendTo words the refusal as one line of printable ASCII. The message needs
// less than C.MESSAGE_CAPACITY bytes, so a buffer of that size never grows.
// Request is read only for refusals that show the arguments.
func (refusal refusal) appendTo(message []byte, request *request) []byte {
	if refusal.reason != wrongType {
		message = append(message, "ERR "...)
	}
	message = append(message, refusal.reason...)
	if refusal.value != "" {
		message = append(message, ", not "...)
		message = appendQuoted(message, refusal.value)
	}
	if refusal.showArguments {
		message = append(message, ", not capacity "...)
		message = append(message, request.capacity...)
		message = append(message, ", count "...)
		message = append(message, request.count...)
		message = append(message, ", period "...)
		message = append(message, request.period...)
		message = append(message, ", quantity "...)
		message = append(message, request.quantity...)
	}
	return message
}

// appendQuoted keeps an argument, which may be any bytes, from breaking the line
// or flooding it.
func appendQuoted(message []byte, value string) []byte {
	message = append(message, '\'')
	for i := 0; i < min(len(value), longestValue); i++ {
		character := value[i]
		if character < ' ' || character > '~' {
			character = '?'
		}
		message = append(message, character)
	}
	message = append(message, '\'')
	if len(value) > longestValue {
		message = append(message, " and more"...)
	}
	return message
}

// refusalOfPanic words a mistake in this module. It repeats the text of a panic
// when there is one, since that is what a bug report needs.
func refusalOfPanic(cause any) refusal {
	const reason = "funnel failed inside and has written nothing; please report it"
	switch cause := cause.(type) {
	case error:
		return refusal{reason: reason, value: cause.Error()}
	case string:
		return refusal{reason: reason, value: cause}
	default:
		return refusal{reason: reason}
	}
}
