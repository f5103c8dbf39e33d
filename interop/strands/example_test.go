package strands_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/workflow"
)

// A paused run, as another program left it.
func ExampleRepository() {
	home, err := os.MkdirTemp("", "sessions")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(home) }()
	repo, err := strands.New(strands.Config{Dir: filepath.Join(home, "sessions")})
	if err != nil {
		fmt.Println(err)
		return
	}
	state := strands.State{Metadata: strands.Metadata{SessionID: "tea-1", WorkflowName: "tea", PatternType: "chain", Status: workflow.StatusPaused}}
	state.Pattern.Set("current_step", json.RawMessage("2"))
	if err := repo.Save(state, []byte("name: tea\n")); err != nil {
		fmt.Println(err)
		return
	}

	runs, err := repo.List()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, run := range runs {
		state, err := repo.Load(run.SessionID)
		if err != nil {
			fmt.Println(err)
			return
		}
		step, _ := state.Pattern.Get("current_step")
		fmt.Println(run.SessionID, run.Status, "at step", string(step))
	}
	// Output: tea-1 paused at step 2
}
