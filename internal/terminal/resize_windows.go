package terminal

import "os"

// notifyResize never tells: a console has no signal for it, and the next key
// draws for the new size.
func notifyResize() (resized <-chan os.Signal, stop func()) { return nil, func() {} }
