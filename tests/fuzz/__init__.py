"""Whatever comes from outside is either read or refused by the error that is promised: never another one."""
