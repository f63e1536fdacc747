"""What every training shares, whatever the network.

loop.py            `train`: steps, learning-rate schedule, validation, early stopping
task.py            `Task`: what the loop trains; every net implements it
checkpoint.py      `checkpointing`: exact checkpoints, from which a killed training resumes; imports no torch
history.py         loss and validation measures of each epoch, as JSON lines and as a picture
gradient_cache.py  gradients of contrastive batches that do not fit in memory
process_group.py   several processes, as torchrun starts them; heartbeat.py finds those that died or stopped
shared_batch.py    a batch divided over processes, with the gradients of one
label_shards.py    checkpoints of processes that each hold a range of the labels
precision.py       the device, bf16 autocast, parameter groups with and without weight decay
to_device.py       copies of NumPy arrays on the device, without waiting
thread_invariant.py  functions whose bits do not depend on the number of threads
row_penalties.py   penalties on classifiers, as tasks call them
mapped_memory.py   host memory that a GPU reads and writes directly
seeds.py           seeds of any size, folded to what torch takes

May import nothing of the other rooms of `nn`. Start with loop.py.
"""
