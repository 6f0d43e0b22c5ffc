package funnels

// A drain says that the funnel of key may be empty at the instant at.
type drain struct {
	at  int64
	key string
}

// drains is a binary min-heap: the earliest drain is the first, and the children
// of element i are elements 2i+1 and 2i+2. container/heap would put each drain
// behind an interface, and so into an allocation of its own.
type drains []drain

// add adds one.
func (d *drains) add(added drain) {
	heap := append(*d, added)
	i := len(heap) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if heap[parent].at <= added.at {
			break
		}
		heap[i] = heap[parent]
		i = parent
	}
	heap[i] = added
	*d = heap
}

// removeFirst removes the first.
func (d *drains) removeFirst() {
	heap := *d
	last := len(heap) - 1
	moved := heap[last]
	heap[last] = drain{} // frees the key
	*d = heap[:last]
	if last > 0 {
		d.replaceFirst(moved)
	}
}

// replaceFirst replaces the first.
func (d *drains) replaceFirst(other drain) {
	heap := *d
	i := 0
	for {
		child := 2*i + 1
		if child >= len(heap) {
			break
		}
		if child+1 < len(heap) && heap[child+1].at < heap[child].at {
			child++
		}
		if other.at <= heap[child].at {
			break
		}
		heap[i] = heap[child]
		i = child
	}
	heap[i] = other
}
