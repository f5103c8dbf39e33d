package schedule

import "context"

// SendOnly fires a schedule as a process does that dies before it moves the
// schedule on.
func SendOnly(ctx context.Context, s *Schedules, id string) error {
	due, err := s.Get(ctx, "", id)
	if err != nil {
		return err
	}
	return s.send(ctx, due, due.Next)
}

// FireStale fires a schedule as it was read before.
func FireStale(ctx context.Context, s *Schedules, due Schedule) error {
	_, err := s.fire(ctx, due)
	return err
}
