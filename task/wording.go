package task

// What the lifecycle of a task says to the model and to people.
const (
	executingText   = "Working on the plan"
	resumedText     = "Task resumed"
	queuedText      = "Waiting for another task to end"
	interruptedNote = "The work was broken off and can be resumed"
	lostHolderNote  = "Whoever worked on it is gone"
	cancelledText   = "Cancelled by user"

	planSystemText  = "You plan work that an agent with tools will do. You do none of it now."
	planRequestText = "Make a plan for this task: a few steps, each of which can be done and checked by itself, in the order in which they are to be done. " +
		"Answer with JSON only: {\"description\": \"...\", \"steps\": [{\"description\": \"...\", \"kind\": \"primary\" or \"verification\"}]}"
	planAgainText = "That is not the JSON that was asked for. Answer with the JSON object alone."

	stepText          = "Step %d of %d: %s"
	checkFailedText   = "The success criteria of the task are not met (attempt %d of %d): %s"
	checkStepText     = "Make the success criteria hold. %s"
	deniedByUserText  = "the user denied it"
	userDeniedText    = "User denied approval"
	approvalOverText  = "Approval request timed out"
	approvalEndedText = "the task ended before anybody answered"

	completionBlockedText = "Completion blocked: unresolved failed step(s): "
)
