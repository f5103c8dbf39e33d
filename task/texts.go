package task

// What the model and people are told, in one place. Programs compare kinds,
// reasons and the markers in capitals, never sentences.
const (
	softLandingText = "[TURN_SOFT_LANDING] %d turns are left and no more will be given. Start nothing new. " +
		"Finish what is under way and say what was done and what was not."

	modeExecuteText  = "You are working on a task by yourself. Do the step you are given with the tools you have, then say what came of it."
	modePlanText     = "You are planning. Look at what is there and propose; change nothing."
	modeAnalyzeText  = "You are analysing. Look and explain; change nothing."
	modeVerifiedText = "You are working on a task by yourself. Check every result before you call it done, and say how you checked it."
	modeDebugText    = "You are looking for the cause of a fault. Find it before you repair anything, and show that the repair holds."
	modeChatText     = "You are talking with a user about a task. Answer what was asked."

	workspaceText  = "\n\nYou work in the folder %s on %s."
	agentsFileText = "AGENTS.md of this folder says how to work in it:\n\n%s"

	repeatedCallText = "You have called %s on %s %d times in a row. The answer will not change. Use what you know, or try something else."
	sameTargetText   = "Most of your last calls were about %s. Decide what you still need to know about it, and move on."
	escalationText   = "[LOW_PROGRESS_ESCALATION] You are still going round %s. Stop examining it: act on what you know, or say what keeps you from it."
	manyCallsText    = "You have called tools many times without a word. Say where you stand, and what is still missing."
	cutOffText       = "Your answer was cut off at the limit. Go on from the very place where it ended; repeat nothing."
	shorterText      = "Your answers are cut off at the limit. Say less at a time, and put long texts into files."
	emptyText        = "Your last answer was empty. Go on with the step, or say what came of it."

	wrapUpText      = "[WRAP_UP] The user asks you to stop here. Call no more tools. Say what is done, what is not, and what to do next."
	wrappingUpText  = "not run: the user asked to stop here. Say what is done and what is not."
	blockedLoopText = "not run: this very call has failed again and again. Try another way."
	notRunText      = "not run: the work was interrupted before it. Call it again if it is still needed."
	disabledText    = "not run: %s failed too often and is off until %s: %s"
	modeOnlyText    = "Tool %q is only available in execute, verified, or debug mode."
	noInputText     = "not asked: nobody waits for questions in chat mode. Say what you want to know."
	readsOnlyText   = "not run: in %s mode only tools that read may be used, and %s does more. Say what you would do."
	noRunText       = "Session checklist tools are not available in this context."
	rememberedText  = "[REMEMBERED] This was read a moment ago and has not been written since; here is that result.\n"

	strategySwitchText = "The same call has failed %d times: %s. Do not try it again as it is; choose another way to the same end."

	nudgeText    = "All implementation checklist items are complete. Add and run a verification item before finishing."
	reminderText = "CHECKLIST REMINDER: "

	continuationText = "Do not repeat the finished steps. Go on with the first of the remaining ones."
	ackText          = "Understood. I go on with the remaining steps."
	stoppedByUser    = "Stopped by user"
	softDeadlineText = "Step soft-deadline reached after %ds"

	recoveryStepText = "Find another way to what failed: %s. The error was: %s"

	executingText   = "Working on the plan"
	resumedText     = "Task resumed"
	queuedText      = "Waiting for another task to end"
	interruptedNote = "The work was broken off and can be resumed"
	lostHolderNote  = "The process that worked on it has ended"
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

// nextActions are hints for a person whose task was stopped.
func nextActions() []string {
	return []string{"Look at what was done so far.", "Change the approach or the constraints.", "Continue the task if it should go on."}
}
