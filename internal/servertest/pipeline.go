package servertest

// CallMany sends many calls over a connection, in batches. Words makes the i-th call,
// and check sees its reply.
func CallMany(wire *Wire, calls int, words func(i int) []string, check func(i int, reply any) error) error {
	const batch = 1000
	var buffer []byte
	for first := 0; first < calls; first += batch {
		size := min(batch, calls-first)
		buffer = buffer[:0]
		for i := first; i < first+size; i++ {
			buffer = AppendCommand(buffer, words(i)...)
		}
		if _, err := wire.Write(buffer); err != nil {
			return err
		}
		for i := first; i < first+size; i++ {
			got, err := wire.Receive()
			if err != nil {
				return err
			}
			if err := check(i, got); err != nil {
				return err
			}
		}
	}
	return nil
}
