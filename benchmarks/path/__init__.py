"""The path of a steady request through gateway, actor and log: which code it enters, and where its time goes."""
