package holdfast

// CheckDurable refuses a store that lacks what work needs that is to outlive a
// process: leases, an open tail, a log and an inbox. It is an
// UnsupportedError that names what is missing.
func (rt *Runtime) CheckDurable() error {
	for _, need := range []struct {
		there bool
		name  string
	}{
		{rt.leases != nil, "leases"}, {rt.tails != nil, "an open tail"}, {rt.logs != nil, "a log"}, {rt.inboxes != nil, "an inbox"},
	} {
		if !need.there {
			return rt.unsupported(need.name)
		}
	}
	return nil
}
